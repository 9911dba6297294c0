package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2instanceconnect"
	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/sdk/instancegroup"
)

const windows = "windows"

// defaultUser is that of Amazon's images, and windowsUser the one that EC2 has a password of.
const (
	defaultUser = "ec2-user"
	windowsUser = "Administrator"
)

// EC2 Instance Connect keeps a key for keyTime. It is sent again when less than keyMargin is left.
const (
	keyTime   = 60 * time.Second
	keyMargin = 20 * time.Second
)

// reach knows how machines are reached: what they must have from here before, and what AWS knows of them.
type reach struct {
	api         *api
	credentials instancegroup.Credentials
	sends       bool // the key, by EC2 Instance Connect
	hostKeys    string
	now         func() time.Time

	mu    sync.Mutex
	known map[string]*known
	sent  int
}

// known is what there is of one machine.
type known struct {
	turn     sync.Mutex
	sent     time.Time // its key; zero: never
	password string
	hostKeys []string
	looks    int // at its console
}

func newReach(a *api, o Options, settings instancegroup.Settings) (*reach, error) {
	r := &reach{api: a, hostKeys: o.HostKeys, known: map[string]*known{}, now: time.Now}
	var err error
	if r.credentials, err = instancegroup.NewCredentials(settings); err != nil {
		return nil, err
	}
	c := &r.credentials.Connector
	if c.OS == windows {
		c.Username = cmp.Or(c.Username, windowsUser)
		if !c.UseStaticCredentials {
			_, err = r.rsaKey()
		}
		return r, err
	}
	c.Username = cmp.Or(c.Username, defaultUser)
	r.sends = !c.UseStaticCredentials
	if o.InstanceConnect != nil {
		r.sends = *o.InstanceConnect
	}
	switch {
	case r.sends && r.credentials.PublicKey == "":
		return nil, errors.New("instance_connect sends a key, and the static credentials are a password")
	case !r.sends && r.credentials.Generated:
		return nil, errors.New("without instance_connect no machine knows the key that is generated: set key_path in connector_config")
	}
	return r, nil
}

// rsaKey is the private key of the key pair that Windows machines are launched with.
func (r *reach) rsaKey() (*rsa.PrivateKey, error) {
	const advice = "set key_path in connector_config to the RSA key of the key pair in the launch template, with which EC2 encrypts the passwords of Windows machines"
	if r.credentials.Generated {
		return nil, errors.New(advice)
	}
	raw, err := ssh.ParseRawPrivateKey(r.credentials.Connector.Key)
	if err != nil {
		return nil, err
	}
	key, ok := raw.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: it is a %T", advice, raw)
	}
	return key, nil
}

// keep forgets all machines but these.
func (r *reach) keep(seen map[string]machine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.known {
		if _, ok := seen[id]; !ok {
			delete(r.known, id)
		}
	}
}

func (r *reach) get(id string) *known {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[id] == nil {
		r.known[id] = &known{}
	}
	return r.known[id]
}

// info is how a machine is reached. It makes no call of AWS where what was asked before is still of use.
func (r *reach) info(ctx context.Context, m machine) (instancegroup.ConnectInfo, error) {
	info := instancegroup.ConnectInfo{ConnectorConfig: r.credentials.Connector, ID: m.ID, InternalAddr: m.internal, ExternalAddr: m.external}
	k := r.get(m.ID)
	k.turn.Lock()
	defer k.turn.Unlock()
	if info.OS == windows {
		return r.windows(ctx, k, info)
	}
	if err := r.findHostKeys(ctx, k, m.ID); err != nil {
		return instancegroup.ConnectInfo{}, err
	}
	info.HostKeys = k.hostKeys
	if r.sends {
		if err := r.send(ctx, k, m, info.Username); err != nil {
			return instancegroup.ConnectInfo{}, err
		}
		info.Expires = aws.Time(k.sent.Add(keyTime))
	}
	return info, nil
}

// send sends the key to a machine, unless it has it for a while.
func (r *reach) send(ctx context.Context, k *known, m machine, user string) error {
	now := r.now()
	if now.Before(k.sent.Add(keyTime - keyMargin)) {
		return nil
	}
	in := &ec2instanceconnect.SendSSHPublicKeyInput{InstanceId: aws.String(m.ID), InstanceOSUser: aws.String(user), SSHPublicKey: aws.String(r.credentials.PublicKey)}
	if m.Zone != "" {
		in.AvailabilityZone = aws.String(m.Zone)
	}
	if _, err := call(ctx, r.api, r.api.connect.SendSSHPublicKey, in); err != nil {
		return err
	}
	k.sent = now // the time before the call: the key is there until then at least
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent++
	return nil
}

// maxLooks is how often the console of a machine is read for host keys that it need not show.
const maxLooks = 3

// findHostKeys reads the fingerprints that a machine has written to its console.
func (r *reach) findHostKeys(ctx context.Context, k *known, id string) error {
	if len(k.hostKeys) > 0 || r.hostKeys == hostKeysFirstUse || r.hostKeys == hostKeysConsole && k.looks == maxLooks {
		return nil
	}
	out, err := call(ctx, r.api, r.api.ec2.GetConsoleOutput, &ec2.GetConsoleOutputInput{InstanceId: aws.String(id), Latest: aws.Bool(true)})
	if errors.Is(err, instancegroup.ErrUnsupported) { // machines that are not on Nitro show it when they have booted
		out, err = call(ctx, r.api, r.api.ec2.GetConsoleOutput, &ec2.GetConsoleOutputInput{InstanceId: aws.String(id)})
	}
	k.looks++
	if err == nil {
		text, broken := base64.StdEncoding.DecodeString(aws.ToString(out.Output))
		k.hostKeys, err = fingerprints(string(text)), broken
	}
	switch {
	case r.hostKeys == hostKeysConsole && ctx.Err() == nil:
		return nil
	case err != nil:
		return err
	case len(k.hostKeys) == 0:
		return instancegroup.Transient(hostKeysAfter, fmt.Errorf("the console of %s does not show its host keys yet, which host_keys = %q requires", id, hostKeysRequired))
	}
	return nil
}

// hostKeysAfter is when the console is worth another look.
const hostKeysAfter = 5 * time.Second

// cloud-init writes host keys between these lines, each beginning with the name of who logs.
const (
	beginHostKeys = "-----BEGIN SSH HOST KEY FINGERPRINTS-----"
	endHostKeys   = "-----END SSH HOST KEY FINGERPRINTS-----"
)

var fingerprint = regexp.MustCompile(`\bSHA256:[A-Za-z0-9+/]{43}`)

// fingerprints are those in the text of a console, of the last boot.
func fingerprints(console string) (keys []string) {
	inside := false
	lines := bufio.NewScanner(strings.NewReader(console))
	lines.Buffer(nil, len(console)+1)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.Contains(line, beginHostKeys):
			inside, keys = true, nil
		case strings.Contains(line, endHostKeys):
			inside = false
		case inside:
			keys = append(keys, fingerprint.FindAllString(line, 1)...)
		}
	}
	return keys
}

// passwordAfter is when EC2 may have a password that it has not yet: a Windows machine takes minutes.
const passwordAfter = 5 * time.Second

// windows is how a Windows machine is reached: by the password that it made, which EC2 gives to who has the key.
func (r *reach) windows(ctx context.Context, k *known, info instancegroup.ConnectInfo) (instancegroup.ConnectInfo, error) {
	if info.UseStaticCredentials {
		return info, nil
	}
	if k.password == "" {
		out, err := call(ctx, r.api, r.api.ec2.GetPasswordData, &ec2.GetPasswordDataInput{InstanceId: aws.String(info.ID)})
		if err != nil {
			return instancegroup.ConnectInfo{}, err
		}
		data := strings.TrimSpace(aws.ToString(out.PasswordData))
		if data == "" {
			return instancegroup.ConnectInfo{}, instancegroup.Transient(passwordAfter, fmt.Errorf("the machine %s has no password yet", info.ID))
		}
		if k.password, err = r.decrypt(data); err != nil {
			return instancegroup.ConnectInfo{}, fmt.Errorf("the password of %s: %w", info.ID, err)
		}
	}
	info.Password = k.password
	info.Key = nil
	return info, nil
}

func (r *reach) decrypt(data string) (string, error) {
	key, err := r.rsaKey()
	if err != nil {
		return "", err
	}
	sealed, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return "", fmt.Errorf("EC2's answer is not base64: %w", err)
	}
	password, err := rsa.DecryptPKCS1v15(nil, key, sealed) //nolint:staticcheck // EC2 encrypts it so, and nobody but EC2 is asked
	if err != nil {
		return "", fmt.Errorf("the key in key_path is not that of the launch template's key pair: %w", err)
	}
	return string(password), nil
}

func (r *reach) metrics() []instancegroup.Metric {
	r.mu.Lock()
	defer r.mu.Unlock()
	return []instancegroup.Metric{{Name: "keys_sent_total", Help: "Keys that were sent by EC2 Instance Connect.", Counter: true, Value: float64(r.sent)}}
}
