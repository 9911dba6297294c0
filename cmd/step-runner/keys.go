package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/rungci/rung/steps/signature"
)

// keyPasswordName is the environment variable that the password of a private key may stand in.
const keyPasswordName = "STEP_RUNNER_KEY_PASSWORD"

const privateKeysHelp = `The key is ed25519 or ECDSA (P-256, P-384, P-521), in PEM as openssl and ssh-keygen write it. Others than its owner must not be
able to read it. A password comes from --password-file, else from ` + keyPasswordName + `, else it is asked for.`

const publicKeysHelp = `A key is a public key in PEM or in OpenSSH's one line, as openssl and ssh-keygen write them, or a private key, of which the public
part is taken.`

// signingKey is the private key that the command line names.
type signingKey struct{ file, passwordFile string }

func (k *signingKey) flags(f *pflag.FlagSet) {
	f.StringVarP(&k.file, "key", "k", "", "sign with the private key in `FILE`")
	f.StringVar(&k.passwordFile, "password-file", "", "read the key's password from `FILE`")
}

// open reads the key.
func (k *signingKey) open(ctx context.Context, a *app) (*signature.PrivateKey, error) {
	if k.file == "" {
		return nil, usage("--key is missing").hinted("make one with `ssh-keygen -t ed25519 -f KEY`, then sign with --key KEY")
	}
	text, err := readPrivateFile(k.file)
	if err != nil {
		return nil, err
	}
	key, err := signature.ParsePrivateKey(text, func() ([]byte, error) { return a.keyPassword(ctx, k) })
	if err != nil {
		return nil, fmt.Errorf("the key %s cannot be used: %w", k.file, err)
	}
	return key, nil
}

// readPrivateFile reads a private key. As ssh does, it refuses those that others can read: they are no secret.
func readPrivateFile(path string) ([]byte, error) {
	text, err := readKey(path)
	if err != nil || !bytes.Contains(text, []byte("PRIVATE KEY")) || runtime.GOOS == "windows" {
		return text, err // of other files the parser says what they are
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return nil, coded(exitDenied, "others than its owner can read the private key %s (mode %04o)", path, info.Mode().Perm()).
			hinted("chmod 600 %s", path)
	}
	return text, nil
}

func readKey(path string) ([]byte, error) {
	text, err := readLimited(path)
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	return []byte(text), nil
}

// keyPassword finds the password of a key that has one.
func (a *app) keyPassword(ctx context.Context, k *signingKey) ([]byte, error) {
	if k.passwordFile != "" {
		text, err := readLimited(k.passwordFile)
		if err != nil {
			return nil, fmt.Errorf("--password-file: %w", err)
		}
		return []byte(strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")), nil
	}
	if text, ok := a.lookupEnv(keyPasswordName); ok {
		return []byte(text), nil
	}
	if terminal, ok := a.stdin.(*os.File); ok && isTerminal(terminal) {
		return a.askPassword(ctx, terminal, fmt.Sprintf("Password of %s: ", k.file))
	}
	return nil, &signature.PasswordError{}
}

// askPassword asks on the terminal, without showing what is typed. An interrupt leaves the terminal as it was.
func (a *app) askPassword(ctx context.Context, terminal *os.File, prompt string) ([]byte, error) {
	fd := int(terminal.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, coded(exitSystem, "asking for the password: %v", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	fmt.Fprint(a.stderr, prompt)
	defer fmt.Fprintln(a.stderr)
	type answer struct {
		text []byte
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		text, err := term.ReadPassword(fd)
		answers <- answer{text, err}
	}()
	select {
	case got := <-answers:
		if got.err != nil {
			return nil, coded(exitSystem, "asking for the password: %v", got.err)
		}
		return got.text, nil
	case <-ctx.Done():
		_ = term.Restore(fd, before)
		return nil, coded(exitInterrupted, "stopped while asking for the password")
	}
}

// trustedKeys are the public keys that the command line names, and how many of them must have signed.
type trustedKeys struct {
	files     []string
	threshold int
}

func (k *trustedKeys) flags(f *pflag.FlagSet) {
	f.StringArrayVarP(&k.files, "key", "k", nil, "demand a signature by the public key in `FILE`; may be given several times")
	f.IntVar(&k.threshold, "threshold", 0, "be content with signatures of `N` of the keys; 0 demands all")
}

// givenKey is a public key, and the file that it was given as.
type givenKey struct {
	signature.PublicKey
	file string
}

// open reads the keys. Each is there once.
func (k *trustedKeys) open() (keys []givenKey, threshold int, err error) {
	if len(k.files) == 0 {
		return nil, 0, usage("--key is missing").hinted("name the public key of whoever should have signed, for example --key ci.pub")
	}
	known := map[string]bool{}
	for _, file := range k.files {
		text, err := readKey(file)
		if err != nil {
			return nil, 0, err
		}
		key, err := signature.ParsePublicKey(text)
		if err != nil {
			return nil, 0, fmt.Errorf("the key %s cannot be used: %w", file, err)
		}
		if !known[key.ID()] {
			known[key.ID()] = true
			keys = append(keys, givenKey{key, file})
		}
	}
	switch {
	case k.threshold == 0:
		return keys, len(keys), nil
	case k.threshold < 0 || k.threshold > len(keys):
		return nil, 0, usage("--threshold: %d of %d keys can never have signed", k.threshold, len(keys)).hinted("give --threshold from 1 to the number of different keys")
	}
	return keys, k.threshold, nil
}
