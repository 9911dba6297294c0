package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/fleet/group"
)

func (c *cloud) show(console string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.console = base64.StdEncoding.EncodeToString([]byte(console))
}

func (g opened) connect(t testing.TB, id string) group.ConnectInfo {
	t.Helper()
	info, err := g.ConnectInfo(t.Context(), id)
	if err != nil {
		t.Fatal("ConnectInfo:", err)
	}
	return info
}

func TestAKeyIsSentOnceAndAgainBeforeItExpires(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	id := g.create(t, request(1, 1))[0]
	g.list(t)
	now := time.Now()
	g.own.reach.now = func() time.Time { return now }
	first := g.connect(t, id)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if info := g.connect(t, id); string(info.Key) != string(first.Key) || !info.Expires.Equal(*first.Expires) {
				t.Error("the second time it is another key")
			}
		})
	}
	all.Wait()
	if got := c.count("SendSSHPublicKey"); got != 1 {
		t.Errorf("it was sent %d times", got)
	}
	now = now.Add(keyTime - keyMargin)
	again := g.connect(t, id)
	if got := c.count("SendSSHPublicKey"); got != 2 || !again.Expires.Equal(now.Add(keyTime)) || string(again.Key) != string(first.Key) {
		t.Errorf("it was sent %d times, and expires at %v", got, again.Expires)
	}
	sent := c.of("SendSSHPublicKey")[0].json
	signer, err := ssh.ParsePrivateKey(first.Key)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))); sent["SSHPublicKey"] != want || sent["InstanceId"] != id || sent["InstanceOSUser"] != "ec2-user" || sent["AvailabilityZone"] == "" {
		t.Errorf("sent: %v", sent)
	}
	if first.Username != "ec2-user" || first.InternalAddr == "" {
		t.Errorf("%v", first)
	}
}

func TestAKeyThatCannotBeSentIsAnErrorWithItsKind(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	id := g.create(t, request(1, 1))[0]
	for code, kind := range map[string]error{"AuthException": group.ErrUnauthorised, "EC2InstanceNotFoundException": group.ErrNotFound} {
		c.fault("SendSSHPublicKey", 1, refuse(400, code))
		_, err := g.ConnectInfo(t.Context(), id)
		wants(t, code, err, kind)
	}
	c.fault("SendSSHPublicKey", 1, refuse(429, "ThrottlingException"))
	c.fault("SendSSHPublicKey", 1, lose)
	g.connect(t, id)
}

func TestStaticCredentialsAreUsedAsTheyAre(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g, err := tryOpen(t, c.byShape(t), group.Settings{ConnectorConfig: group.ConnectorConfig{Username: "ci", Password: "secret", UseStaticCredentials: true}})
	if err != nil {
		t.Fatal(err)
	}
	id := g.create(t, request(1, 1))[0]
	if info := g.connect(t, id); info.Username != "ci" || info.Password != "secret" || info.Expires != nil || c.count("SendSSHPublicKey") != 0 {
		t.Errorf("%v, sent: %d", info, c.count("SendSSHPublicKey"))
	}
}

const console = `[   12.3] cloud-init[900]: ci-info: no authorized SSH keys fingerprints found for user ec2-user.
<14>Mar  2 09:14:03 cloud-init: #############################################################
<14>Mar  2 09:14:03 cloud-init: -----BEGIN SSH HOST KEY FINGERPRINTS-----
<14>Mar  2 09:14:03 cloud-init: 256 SHA256:OLDOLDOLDOLDOLDOLDOLDOLDOLDOLDOLDOLDOLDOLDO root@ip-10-0-0-1 (ED25519)
<14>Mar  2 09:14:03 cloud-init: -----END SSH HOST KEY FINGERPRINTS-----
user: SHA256:NONONONONONONONONONONONONONONONONONONONONON
<14>Mar  2 09:14:03 cloud-init: -----BEGIN SSH HOST KEY FINGERPRINTS-----
<14>Mar  2 09:14:03 cloud-init: 256 SHA256:ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopq root@ip-10-0-0-1 (ECDSA)
<14>Mar  2 09:14:03 cloud-init: 256 SHA256:+/CDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopq root@ip-10-0-0-1 (ED25519)
<14>Mar  2 09:14:03 cloud-init: -----END SSH HOST KEY FINGERPRINTS-----
`

func TestHostKeysAreThoseOfTheConsole(t *testing.T) {
	t.Parallel()
	want := "SHA256:ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopq SHA256:+/CDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopq"
	for _, how := range []string{hostKeysConsole, hostKeysRequired, hostKeysFirstUse} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t, motoURL(t))
			o := c.byShape(t)
			o.HostKeys = how
			g := open(t, o)
			id := g.create(t, request(1, 1))[0]
			c.show("it boots")
			_, err := g.ConnectInfo(t.Context(), id)
			if after, later := group.RetryAfter(err); how == hostKeysRequired && (!later || after != hostKeysAfter) || how != hostKeysRequired && err != nil {
				t.Errorf("before they are shown: %v", err)
			}
			c.show(console)
			c.fault("GetConsoleOutput", 1, refuse(400, "UnsupportedOperation")) // of the latest, on a machine that is not on Nitro
			for range 2 {
				if got := strings.Join(g.connect(t, id).HostKeys, " "); how != hostKeysFirstUse && got != want || how == hostKeysFirstUse && got != "" {
					t.Errorf("%q, want %q", got, want)
				}
			}
			wanted := 3 // nothing, a refusal, the keys
			if how == hostKeysFirstUse {
				wanted = 0
			}
			if got := c.count("GetConsoleOutput"); got != wanted {
				t.Errorf("the console was read %d times, want %d", got, wanted)
			}
		})
	}
}

func TestTheConsoleIsNotReadForEver(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	id := g.create(t, request(1, 1))[0]
	c.show("nothing")
	for range 2 * maxLooks {
		g.connect(t, id)
	}
	if got := c.count("GetConsoleOutput"); got != maxLooks {
		t.Errorf("it was read %d times", got)
	}
}

func TestThePasswordOfAWindowsMachineIsDecrypted(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	g, err := tryOpen(t, c.byShape(t), group.Settings{ConnectorConfig: group.ConnectorConfig{OS: "windows", Protocol: group.ProtocolWinRM, Key: text}})
	if err != nil {
		t.Fatal(err)
	}
	id := g.create(t, request(1, 1))[0]
	_, err = g.ConnectInfo(t.Context(), id)
	if after, later := group.RetryAfter(err); !later || after != passwordAfter {
		t.Errorf("before there is one: %v", err)
	}
	sealed, err := rsa.EncryptPKCS1v15(rand.Reader, &key.PublicKey, []byte("a-password")) //nolint:staticcheck // as EC2 does it
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.password = "\r\n" + base64.StdEncoding.EncodeToString(sealed) + "\r\n"
	c.mu.Unlock()
	for range 3 {
		if info := g.connect(t, id); info.Password != "a-password" || info.Username != "Administrator" || len(info.Key) > 0 || info.Protocol != group.ProtocolWinRM {
			t.Errorf("%v, password %t", info, info.Password == "a-password")
		}
	}
	if got := c.count("GetPasswordData"); got != 2 {
		t.Errorf("EC2 was asked %d times", got)
	}
	if strings.Contains(g.log.String(), "a-password") {
		t.Error("the password is in the log")
	}
}
