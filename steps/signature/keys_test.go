package signature_test

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/youmark/pkcs8"
	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/steps/signature"
)

// algorithms are the kinds of key that sign.
var algorithms = []struct {
	name     string
	generate func() (crypto.Signer, error)
}{
	{"ed25519", func() (crypto.Signer, error) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}},
	{"ECDSA P-256", func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }},
	{"ECDSA P-384", func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) }},
	{"ECDSA P-521", func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P521(), rand.Reader) }},
}

func password(text string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(text), nil }
}

func pemOf(t testing.TB, kind string, der []byte, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func blockOf(t testing.TB, block *pem.Block, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

func pkcs8Of(t testing.TB, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pemOf(t, "PRIVATE KEY", der, err)
}

// newKey makes a key of an algorithm of the table.
func newKey(t testing.TB, algorithm string) *signature.PrivateKey {
	t.Helper()
	for _, a := range algorithms {
		if a.name == algorithm {
			key, err := a.generate()
			if err != nil {
				t.Fatal(err)
			}
			return parsed(t, pkcs8Of(t, key), nil)
		}
	}
	t.Fatalf("no algorithm %q", algorithm)
	return nil
}

func parsed(t testing.TB, text []byte, password func() ([]byte, error)) *signature.PrivateKey {
	t.Helper()
	key, err := signature.ParsePrivateKey(text, password)
	if err != nil {
		t.Fatalf("ParsePrivateKey: %v", err)
	}
	return key
}

func TestEveryFormOfAKeyIsRead(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			key, err := a.generate()
			if err != nil {
				t.Fatal(err)
			}
			public, err := ssh.NewPublicKey(key.Public())
			if err != nil {
				t.Fatal(err)
			}
			want := ssh.FingerprintSHA256(public)

			for form, text := range privateForms(t, key) {
				got := parsed(t, text, password("correct horse"))
				if got.Public().ID() != want || got.Public().Algorithm() != a.name {
					t.Errorf("%s: is %v, want %s (%s)", form, got.Public(), want, a.name)
				}
				if _, err := signature.ParsePrivateKey(text, nil); strings.Contains(form, "protected") != isPassword(err, false) {
					t.Errorf("%s: without a password: %v", form, err)
				}
				if _, err := signature.ParsePrivateKey(text, password("wrong")); strings.Contains(form, "protected") != isPassword(err, true) {
					t.Errorf("%s: with a wrong password: %v", form, err)
				}
				got2, err := signature.ParsePublicKey(text)
				if form == "protected PKCS#8" || form == "PKCS#8 protected with scrypt" {
					if !isPassword(err, false) {
						t.Errorf("%s: the public part: %v", form, err)
					}
				} else if err != nil || got2.ID() != want {
					t.Errorf("%s: the public part is %v, %v", form, got2, err)
				}
			}

			der, err := x509.MarshalPKIXPublicKey(key.Public())
			for form, text := range map[string][]byte{
				"PKIX":             pemOf(t, "PUBLIC KEY", der, err),
				"OpenSSH":          ssh.MarshalAuthorizedKey(public),
				"OpenSSH, comment": []byte("# mine\n" + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public))) + " me@example\n"),
			} {
				got, err := signature.ParsePublicKey(text)
				if err != nil || got.ID() != want {
					t.Errorf("%s is read as %v, %v, want %s", form, got, err, want)
				}
				if back, err := got.MarshalPEM(); err != nil || string(back) != string(pemOf(t, "PUBLIC KEY", der, nil)) {
					t.Errorf("%s is written as %s, %v", form, back, err)
				}
			}
		})
	}
}

// privateForms writes the key in every form that is read. Those whose name holds "protected" have the password "correct horse".
func privateForms(t *testing.T, key crypto.Signer) map[string][]byte {
	t.Helper()
	secret := []byte("correct horse")
	forms := map[string][]byte{"PKCS#8": pkcs8Of(t, key)}
	der, err := pkcs8.MarshalPrivateKey(key, secret, nil)
	forms["protected PKCS#8"] = pemOf(t, "ENCRYPTED PRIVATE KEY", der, err)
	der, err = pkcs8.MarshalPrivateKey(key, secret, &pkcs8.Opts{
		Cipher:  pkcs8.TripleDESCBC,
		KDFOpts: pkcs8.ScryptOpts{SaltSize: 8, CostParameter: 1 << 10, BlockSize: 8, ParallelizationParameter: 1},
	})
	forms["PKCS#8 protected with scrypt"] = pemOf(t, "ENCRYPTED PRIVATE KEY", der, err)
	block, err := ssh.MarshalPrivateKey(key, "me@example")
	forms["OpenSSH"] = blockOf(t, block, err)
	block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "me@example", secret)
	forms["protected OpenSSH"] = blockOf(t, block, err)
	if curved, ok := key.(*ecdsa.PrivateKey); ok {
		der, err := x509.MarshalECPrivateKey(curved)
		forms["SEC1"] = pemOf(t, "EC PRIVATE KEY", der, err)
		parameters := pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{5, 0}})
		forms["SEC1 behind its parameters"] = append(parameters, forms["SEC1"]...)
	}
	return forms
}

func isPassword(err error, wrong bool) bool {
	var p *signature.PasswordError
	return errors.As(err, &p) && p.Wrong == wrong
}

func TestOtherKeysAreRefusedWithAReason(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	small, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	x, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := pkcs8Of(t, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)))
	rsaPublic, err := x509.MarshalPKIXPublicKey(rsaKey.Public())
	rsaPEM := pemOf(t, "PUBLIC KEY", rsaPublic, err)
	sshRSA := ssh.MarshalAuthorizedKey(must(ssh.NewPublicKey(rsaKey.Public())))
	sshEd := ssh.MarshalAuthorizedKey(must(ssh.NewPublicKey(must2(ed25519.GenerateKey(rand.Reader)))))
	old := []byte("-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END EC PRIVATE KEY-----\n")
	tests := []struct {
		name            string
		text            []byte
		private, public string // what the errors hold; "" is none
	}{
		{"RSA in PKCS#8", pkcs8Of(t, rsaKey), "RSA keys are not supported", "RSA keys are not supported"},
		{"RSA in PKCS#1", pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)}), "RSA keys", "RSA keys"},
		{"a public RSA key", rsaPEM, "public key", "RSA keys"},
		{"a public RSA key of OpenSSH", sshRSA, "not a private key", "RSA keys"},
		{"a curve that is too small", pkcs8Of(t, small), "P-256", "not on P-224"},
		{"X25519", pkcs8Of(t, x), "cannot sign", "cannot sign"},
		{"a public key to sign with", must(parsed(t, good, nil).Public().MarshalPEM()), "it is a public key", ""},
		{"a certificate", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1}}), "CERTIFICATE", "CERTIFICATE"},
		{"damaged DER", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1, 2}}), "cannot be read", "cannot be read"},
		{"damaged PEM", []byte("-----BEGIN PRIVATE KEY-----\n!\n"), "damaged", "damaged"},
		{"an old protection", old, "old form", "old form"},
		{"two keys", append(good[:len(good):len(good)], good...), "several keys", "several keys"},
		{"two lines", append(sshEd[:len(sshEd):len(sshEd)], sshEd...), "not a private key", "several keys"},
		{"a line with options", append([]byte("restrict "), sshEd...), "not a private key", "before the key"},
		{"nothing", nil, "not a private key", "not a key"},
		{"text", []byte("hello"), "not a private key", "not a key"},
		{"too much", make([]byte, signature.MaxKeyFile+1), "larger than", "larger than"},
		{"damaged protection", pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte{0x30, 0}}), "damaged", "damaged"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := signature.ParsePrivateKey(tt.text, password("x"))
			refused(t, err, tt.private)
			_, err = signature.ParsePublicKey(tt.text)
			refused(t, err, tt.public)
		})
	}
}

func refused(t *testing.T, err error, want string) {
	t.Helper()
	var key *signature.KeyError
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (!errors.As(err, &key) || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want a *KeyError with %q", err, want)
	}
}

func TestThePasswordIsAskedOnlyWhereThereIsOne(t *testing.T) {
	t.Parallel()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	never := func() ([]byte, error) { t.Error("asked"); return nil, nil }
	parsed(t, pkcs8Of(t, private), never)

	stop := errors.New("no terminal")
	der, err := pkcs8.MarshalPrivateKey(private, []byte("p"), nil)
	text := pemOf(t, "ENCRYPTED PRIVATE KEY", der, err)
	if _, err := signature.ParsePrivateKey(text, func() ([]byte, error) { return nil, stop }); !errors.Is(err, stop) {
		t.Errorf("what asking met is not handed on: %v", err)
	}
	if _, err := signature.ParsePrivateKey(text, password("")); !isPassword(err, true) {
		t.Errorf("an empty password: %v", err)
	}
}

// TestKeysOfOtherPrograms reads what people have: keys as openssl and ssh-keygen write them.
func TestKeysOfOtherPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	needs := func(t *testing.T, program string) {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	run := func(t *testing.T, command ...string) string {
		t.Helper()
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", command, err, out)
		}
		return string(out)
	}
	read := func(t *testing.T, name string) []byte {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, command := range map[string]string{
		"openssl-ed25519":   "openssl genpkey -algorithm ed25519 -out %",
		"openssl-protected": "openssl genpkey -algorithm ed25519 -aes256 -pass pass:secret -out %",
		"openssl-p384":      "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -aes256 -pass pass:secret -out %",
		"openssl-sec1":      "openssl ecparam -name prime256v1 -genkey -out %",
		"ssh-ed25519":       "ssh-keygen -q -t ed25519 -N secret -f %",
		"ssh-ecdsa":         "ssh-keygen -q -t ecdsa -b 521 -f % -N",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(strings.ReplaceAll(command, "%", name))
			needs(t, words[0])
			if words[len(words)-1] == "-N" {
				words = append(words, "")
			}
			run(t, words...)
			key := parsed(t, read(t, name), password("secret"))
			if words[0] == "openssl" {
				run(t, "openssl", "pkey", "-in", name, "-passin", "pass:secret", "-pubout", "-out", name+".pub")
			} else if out := run(t, "ssh-keygen", "-l", "-f", name+".pub"); !strings.Contains(out, key.Public().ID()+" ") {
				t.Errorf("ssh-keygen calls the key %q, we %s", out, key.Public().ID())
			}
			public, err := signature.ParsePublicKey(read(t, name+".pub"))
			if err != nil || public.ID() != key.Public().ID() {
				t.Errorf("the public key is %v, %v, want %v", public, err, key.Public())
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// must2 returns the first of two results.
func must2[T, U any](v T, _ U, err error) T { return must(v, err) }

func FuzzKeys(f *testing.F) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pkcs8Of(f, private))
	der, err := pkcs8.MarshalPrivateKey(private, []byte("p"), nil)
	f.Add(pemOf(f, "ENCRYPTED PRIVATE KEY", der, err))
	block, err := ssh.MarshalPrivateKey(private, "")
	f.Add(blockOf(f, block, err))
	f.Add(ssh.MarshalAuthorizedKey(must(ssh.NewPublicKey(private.Public()))))
	f.Add([]byte("-----BEGIN EC PRIVATE KEY-----\nDEK-Info: x\n\nAAAA\n-----END EC PRIVATE KEY-----"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if public, err := signature.ParsePublicKey(text); err == nil && public.ID() == "" {
			t.Error("a key without an ID")
		}
		// Nobody knows the password: what is protected is looked at, and not opened.
		if key, err := signature.ParsePrivateKey(text, nil); err == nil && (&signature.Envelope{}).Sign(key) != nil {
			t.Error("a key that cannot sign")
		}
	})
}

// FuzzProtection opens protected keys whose protection is damaged.
func FuzzProtection(f *testing.F) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	for _, kdf := range []pkcs8.KDFOpts{
		pkcs8.PBKDF2Opts{SaltSize: 8, IterationCount: 2, HMACHash: crypto.SHA256},
		pkcs8.ScryptOpts{SaltSize: 8, CostParameter: 2, BlockSize: 1, ParallelizationParameter: 1},
	} {
		for _, cipher := range []pkcs8.Cipher{pkcs8.AES256CBC, pkcs8.AES128CBC, pkcs8.TripleDESCBC} {
			der, err := pkcs8.MarshalPrivateKey(private, []byte("p"), &pkcs8.Opts{Cipher: cipher, KDFOpts: kdf})
			if err != nil {
				f.Fatal(err)
			}
			f.Add(der)
		}
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		text := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: der})
		_, err := signature.ParsePrivateKey(text, password("p"))
		var key *signature.KeyError
		var secret *signature.PasswordError
		if err != nil && !errors.As(err, &key) && !errors.As(err, &secret) {
			t.Errorf("an error of another type: %T %v", err, err)
		}
	})
}
