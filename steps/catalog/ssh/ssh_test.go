//go:build unix

package ssh

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/youmark/pkcs8"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/rungci/rung/steps/catalog/programtest"
)

// TestMain makes this program, started with a variable, one that talks to the agent, for machines without OpenSSH.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_AGENT_CLIENT") != "" {
		os.Exit(client())
	}
	os.Exit(m.Run())
}

// client lists the keys of the agent, and has something signed with each.
func client() int {
	conn, err := net.Dial("unix", os.Getenv("SSH_AUTH_SOCK"))
	if err != nil {
		println(err.Error())
		return 1
	}
	defer conn.Close()
	a := agent.NewClient(conn)
	keys, err := a.List()
	if err != nil {
		println(err.Error())
		return 1
	}
	data := []byte("to be signed")
	for _, key := range keys {
		signature, err := a.Sign(key, data)
		if err == nil {
			err = key.Verify(data, signature)
		}
		if err != nil {
			println(err.Error())
			return 1
		}
		os.Stdout.WriteString("signed with " + key.Comment + " " + ssh.FingerprintSHA256(key) + "\n")
	}
	return 0
}

// key is a private key in several forms.
type key struct {
	text        string
	fingerprint string
}

const passphrase = "correct horse"

func makeKey(t *testing.T, kind string) key {
	t.Helper()
	var private crypto.Signer
	var err error
	switch kind {
	case "rsa", "rsa old", "rsa old protected":
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ecdsa", "ec with parameters", "pkcs8 protected":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return key{string(encode(t, kind, private)), ssh.FingerprintSHA256(public)}
}

func encode(t *testing.T, kind string, private crypto.Signer) []byte {
	t.Helper()
	var block *pem.Block
	var err error
	var der []byte
	before := ""
	switch kind {
	case "rsa old":
		block = &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private.(*rsa.PrivateKey))}
	case "rsa old protected":
		//nolint:staticcheck // OpenSSL wrote such keys for decades
		block, err = x509.EncryptPEMBlock(rand.Reader, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(private.(*rsa.PrivateKey)), []byte(passphrase), x509.PEMCipherAES128)
	case "ec with parameters":
		before = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
		der, err = x509.MarshalECPrivateKey(private.(*ecdsa.PrivateKey))
		block = &pem.Block{Type: "EC PRIVATE KEY", Bytes: der}
	case "pkcs8":
		der, err = x509.MarshalPKCS8PrivateKey(private)
		block = &pem.Block{Type: "PRIVATE KEY", Bytes: der}
	case "pkcs8 protected":
		der, err = pkcs8.MarshalPrivateKey(private, []byte(passphrase), nil)
		block = &pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: der}
	case "protected":
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	default:
		block, err = ssh.MarshalPrivateKey(private, "somebody@somewhere")
	}
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(before), pem.EncodeToMemory(block)...)
}

func withKeys(script string, keys ...key) map[string]any {
	texts := []string{}
	for _, k := range keys {
		texts = append(texts, k.text)
	}
	return map[string]any{"script": script, "shell": "sh", "keys": texts, "passphrase": "", "known_hosts": "", "lifetime": ""}
}

// askAgent is shell text that runs the client.
func askAgent(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return "TEST_AGENT_CLIENT=1 '" + self + "'\n"
}

func TestKeysOfAllKinds(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"ed25519", "rsa", "rsa old", "ecdsa", "ec with parameters", "pkcs8", "protected", "rsa old protected", "pkcs8 protected"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			k := makeKey(t, kind)
			in := withKeys(askAgent(t), k)
			in["passphrase"] = passphrase
			r := programtest.Run(t, Agent, t.TempDir(), in)
			if r.Err != nil || !strings.Contains(r.Log, "signed with key 1 "+k.fingerprint) || r.Output("fingerprints") != `["`+k.fingerprint+`"]` {
				t.Errorf("%v %s\n%s", r.Err, r.Output("fingerprints"), r.Log)
			}
		})
	}
	t.Run("several, with the line ends of Windows, and none after the last", func(t *testing.T) {
		t.Parallel()
		a, b := makeKey(t, "ed25519"), makeKey(t, "pkcs8")
		a.text = strings.TrimSpace(strings.ReplaceAll(a.text, "\n", "\r\n"))
		r := programtest.Run(t, Agent, t.TempDir(), withKeys(askAgent(t), a, b))
		if r.Err != nil || !strings.Contains(r.Log, "signed with key 1 "+a.fingerprint) || !strings.Contains(r.Log, "signed with key 2 "+b.fingerprint) {
			t.Errorf("%v\n%s", r.Err, r.Log)
		}
	})
}

func TestSSHAddListsTheKeys(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh-add"); err != nil {
		t.Skipf("needs ssh-add: %v", err)
	}
	k := makeKey(t, "ed25519")
	r := programtest.Run(t, Agent, t.TempDir(), withKeys("ssh-add -l && ssh-add -D && ! ssh-add -l", k))
	if r.Err != nil || !strings.Contains(r.Log, "256 "+k.fingerprint+" key 1 (ED25519)") {
		t.Errorf("%v\n%s", r.Err, r.Log)
	}
}

func TestKeysAreInNoFileAndNoVariable(t *testing.T) {
	t.Parallel()
	k := makeKey(t, "ed25519")
	temp, dir := t.TempDir(), t.TempDir()
	body := strings.Split(k.text, "\n")[1]
	r := programtest.Run(t, Agent, dir, withKeys(`
env
find "$TMPDIR" . -type f -exec cat {} +
ls -ld "$(dirname "$SSH_AUTH_SOCK")" "$SSH_AUTH_SOCK"
`, k), "TMPDIR="+temp)
	if r.Err != nil {
		t.Fatalf("%v\n%s", r.Err, r.Log)
	}
	if strings.Contains(r.Log, body) {
		t.Errorf("the key is somewhere:\n%s", r.Log)
	}
	if !strings.Contains(r.Log, "\ndrwx------ ") || !strings.Contains(r.Log, "\nsrw------- ") {
		t.Errorf("others may come near the agent:\n%s", r.Log)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestTheScript(t *testing.T) {
	t.Parallel()
	k := makeKey(t, "ed25519")
	t.Run("is given to the shell as it is", func(t *testing.T) {
		t.Parallel()
		r := programtest.Run(t, Agent, t.TempDir(), withKeys("echo 'a  b' \"$((1+1))\" \\$x; cat", k))
		if r.Err != nil || !strings.Contains(r.Log, "a  b 2 $x\n") {
			t.Errorf("%v\n%s", r.Err, r.Log)
		}
	})
	t.Run("is on no disk, on Linux", func(t *testing.T) {
		t.Parallel()
		if runtime.GOOS != "linux" {
			t.Skip("needs files in memory")
		}
		r := programtest.Run(t, Agent, t.TempDir(), withKeys(`find "${0%/*}" -type f -exec echo on disk: {} +; readlink "$0"`, k))
		if r.Err != nil || strings.Contains(r.Log, "on disk") || !strings.Contains(r.Log, "/proc/self/fd/") {
			t.Errorf("%v\n%s", r.Err, r.Log)
		}
	})
	t.Run("runs in bash, or in sh where there is no bash", func(t *testing.T) {
		t.Parallel()
		sh, err := exec.LookPath("sh")
		if err != nil {
			t.Skipf("needs sh: %v", err)
		}
		dir := t.TempDir()
		if err := os.Symlink(sh, filepath.Join(dir, "sh")); err != nil {
			t.Fatal(err)
		}
		in := withKeys("echo it runs", k)
		in["shell"] = ""
		r := programtest.Run(t, Agent, t.TempDir(), in, "PATH="+dir)
		if r.Err != nil || !strings.Contains(r.Log, "it runs\n") {
			t.Errorf("%v\n%s", r.Err, r.Log)
		}
	})
	t.Run("fails with its own exit code", func(t *testing.T) {
		t.Parallel()
		r := programtest.Run(t, Agent, t.TempDir(), withKeys("exit 7", k))
		if r.Err == nil || !strings.Contains(r.Err.Error(), "exit code 7") {
			t.Errorf("the error is %v", r.Err)
		}
	})
	t.Run("that is stopped leaves nothing", func(t *testing.T) {
		t.Parallel()
		temp := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			for range 1000 {
				if _, err := os.Stat(filepath.Join(temp, "begun")); err == nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
		r := programtest.RunContext(t, ctx, Agent, t.TempDir(), withKeys(`: >"$TMPDIR/begun"; exec sleep 600`, k), "TMPDIR="+temp)
		left, _ := filepath.Glob(filepath.Join(temp, "ssh-*"))
		if r.Err == nil || len(left) > 0 {
			t.Errorf("%v %v", r.Err, left)
		}
	})
	t.Run("finds the agent also where the folder for temporary files has a long path", func(t *testing.T) {
		t.Parallel()
		long := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
		if err := os.Mkdir(long, 0o700); err != nil {
			t.Fatal(err)
		}
		r := programtest.Run(t, Agent, t.TempDir(), withKeys(askAgent(t), k), "TMPDIR="+long)
		if r.Err != nil || !strings.Contains(r.Log, "signed with key 1") {
			t.Errorf("%v\n%s", r.Err, r.Log)
		}
	})
}

func TestKeysAreForgottenAfterTheirTime(t *testing.T) {
	t.Parallel()
	in := withKeys("ask() { "+askAgent(t)+"}\nwhile ask | grep -q signed; do sleep 0.05; done; ask; echo asked", makeKey(t, "ed25519"))
	in["lifetime"] = "10ms" // a second, in full
	r := programtest.Run(t, Agent, t.TempDir(), in)
	if r.Err != nil || strings.Contains(r.Log, "signed with") || !strings.Contains(r.Log, "asked") {
		t.Errorf("%v\n%s", r.Err, r.Log)
	}
}

func TestErrorsShowNoKey(t *testing.T) {
	t.Parallel()
	good, protected := makeKey(t, "ed25519"), makeKey(t, "protected")
	damaged := strings.Replace(good.text, good.text[60:64], "AAAA", 1)
	lines := strings.Split(good.text, "\n")
	public := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAf0JrZ8Wb0m0T2WnM0vHhVbE5mGgwzMkqQ1TrLGkU6h somebody"
	for name, tc := range map[string]struct {
		change func(in map[string]any)
		want   string
	}{
		"no keys":           {func(in map[string]any) { in["keys"] = []string{} }, "there are no keys"},
		"too many keys":     {func(in map[string]any) { in["keys"] = slices.Repeat([]string{good.text}, 65) }, "there are 65 keys; at most 64"},
		"an empty key":      {func(in map[string]any) { in["keys"] = []string{good.text, " "} }, "key 2 is empty"},
		"a damaged key":     {func(in map[string]any) { in["keys"] = []string{damaged} }, "key 1 cannot be read"},
		"a key on one line": {func(in map[string]any) { in["keys"] = []string{strings.Join(lines, " ")} }, "key 1 is on one line"},
		"a path":            {func(in map[string]any) { in["keys"] = []string{"/builds/group/project.tmp/SSH_KEY"} }, "key 1 is one line of text; if it is the path"},
		"a public key":      {func(in map[string]any) { in["keys"] = []string{public} }, "key 1 is a public key"},
		"a key of PuTTY": {func(in map[string]any) {
			in["keys"] = []string{"PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\nsecret"}
		}, "format of PuTTY"},
		"something else":               {func(in map[string]any) { in["keys"] = []string{"my secret\nof two lines"} }, "not a private key in PEM"},
		"a key without its passphrase": {func(in map[string]any) { in["keys"] = []string{protected.text} }, "key 1 is protected by a passphrase; give it"},
		"a wrong passphrase": {func(in map[string]any) {
			in["keys"], in["passphrase"] = []string{protected.text}, "battery staple"
		}, "key 1 is protected by another passphrase"},
		"a wrong passphrase of PKCS #8": {func(in map[string]any) {
			in["keys"], in["passphrase"] = []string{makeKey(t, "pkcs8 protected").text}, "battery staple"
		}, "key 1 is protected by another passphrase"},
		"a text that is too long":       {func(in map[string]any) { in["keys"] = []string{strings.Repeat("x", maxKeyText+1)} }, "key 1 is longer than"},
		"a lifetime that is none":       {func(in map[string]any) { in["lifetime"] = "soon" }, `lifetime is "soon"`},
		"a lifetime that is over":       {func(in map[string]any) { in["lifetime"] = "-1m" }, `lifetime is "-1m"`},
		"known hosts that are none":     {func(in map[string]any) { in["known_hosts"] = "# fine\n\nexample.com\n" }, "known_hosts: line 3 is not a host with its key"},
		"a known host with another key": {func(in map[string]any) { in["known_hosts"] = "example.com ssh-rsa " + strings.Fields(public)[1] }, "known_hosts: line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := withKeys("echo it runs", good)
			tc.change(in)
			r := programtest.Run(t, Agent, t.TempDir(), in)
			if r.Err == nil || !strings.Contains(r.Err.Error(), tc.want) || strings.Contains(r.Log, "it runs") {
				t.Fatalf("the error is %v, want %q\n%s", r.Err, tc.want, r.Log)
			}
			for _, secret := range []string{lines[1], "secret", "SSH_KEY", "battery", passphrase} {
				if strings.Contains(r.Err.Error()+r.Log, secret) {
					t.Errorf("%q is shown: %v", secret, r.Err)
				}
			}
		})
	}
}

func FuzzKeys(f *testing.F) {
	for _, seed := range []string{"", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nMC4C\n-----END PRIVATE KEY-----\n", "ssh-rsa AAAA", "/a/path"} {
		f.Add(seed, "")
	}
	f.Fuzz(func(t *testing.T, text, passphrase string) {
		if len(text) > 4096 {
			return
		}
		ring, err := newKeyring([]string{text}, passphrase, 0)
		if (err == nil) != (ring != nil) {
			t.Errorf("%v %v", ring, err)
		}
		_ = checkKnownHosts(text)
	})
}
