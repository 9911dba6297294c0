// Package keys reads the private and public keys that a command line names.
package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/screen"
	"github.com/rungci/rung/cmd/step-runner/command/values"
	"github.com/rungci/rung/internal/shellword"
	"github.com/rungci/rung/steps/signature"
)

// keyPasswordName is the environment variable that the password of a private key may be in.
const keyPasswordName = "STEP_RUNNER_KEY_PASSWORD"

// PrivateKeysHelp is for commands that sign.
const PrivateKeysHelp = `The key is ed25519 or ECDSA (P-256, P-384, P-521) in PEM, as openssl and ssh-keygen write it. Only its owner may have access
to the file. The password comes from --password-file or` + keyPasswordName + `; otherwise sign asks for it.`

// PublicKeysHelp is for commands that verify.
const PublicKeysHelp = `A key is a public key in PEM or OpenSSH format, as openssl and ssh-keygen write it, or a private key, whose public part is
used.`

// SigningKey is the private key that the command line names.
type SigningKey struct{ file, passwordFile string }

// Declare declares the flags.
func (k *SigningKey) Declare(f *pflag.FlagSet) {
	f.StringVarP(&k.file, "key", "k", "", "sign with the private key in `FILE`")
	f.StringVar(&k.passwordFile, "password-file", "", "read the key's password from `FILE`")
}

// Open reads the key.
func (k *SigningKey) Open(ctx context.Context, p *command.Program) (*signature.PrivateKey, error) {
	if k.file == "" {
		return nil, exit.Usage("--key is missing").Hinted("make one with `ssh-keygen -t ed25519 -f KEY`, then sign with --key KEY")
	}
	text, err := readPrivateFile(k.file)
	if err != nil {
		return nil, err
	}
	key, err := signature.ParsePrivateKey(text, func() ([]byte, error) { return k.password(ctx, p) })
	if err != nil {
		return nil, keyError(k.file, err)
	}
	return key, nil
}

// keyError is the error of a key that cannot be used.
func keyError(file string, err error) error {
	var password *signature.PasswordError
	if errors.As(err, &password) && !password.Wrong {
		return exit.Coded(exit.BadUsage, "the key %s cannot be used: %v", file, err).
			Hinted("to sign, use --password-file, or set " + keyPasswordName + "; to verify, give the public key")
	}
	return fmt.Errorf("the key %s cannot be used: %w", file, err)
}

// readPrivateFile reads a private key. As ssh does, it refuses those that others can read: they are no secret.
func readPrivateFile(path string) ([]byte, error) {
	text, err := readKey(path)
	if err != nil || !bytes.Contains(text, []byte("PRIVATE KEY")) || runtime.GOOS == "windows" {
		return text, err // of other files the parser says what they are
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return nil, exit.Coded(exit.Denied, "users other than its owner can read the private key %s (mode %04o)", path, info.Mode().Perm()).
			Hinted("chmod 600 %s", shellword.Of(path))
	}
	return text, nil
}

func readKey(path string) ([]byte, error) {
	text, err := values.ReadLimited(path)
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	return []byte(text), nil
}

// password finds the password of a key that has one.
func (k *SigningKey) password(ctx context.Context, p *command.Program) ([]byte, error) {
	if k.passwordFile != "" {
		text, err := values.ReadLimited(k.passwordFile)
		if err != nil {
			return nil, fmt.Errorf("--password-file: %w", err)
		}
		return []byte(strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")), nil
	}
	if text, ok := p.LookupEnv(keyPasswordName); ok {
		return []byte(text), nil
	}
	if terminal, ok := p.Stdin.(*os.File); ok && screen.IsTerminal(terminal) {
		return askPassword(ctx, p, terminal, fmt.Sprintf("Password of %s: ", k.file))
	}
	return nil, &signature.PasswordError{}
}

// askPassword asks on the terminal, without showing what is typed. An interrupt leaves the terminal as it was.
func askPassword(ctx context.Context, p *command.Program, terminal *os.File, prompt string) ([]byte, error) {
	fd := int(terminal.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, exit.Coded(exit.System, "asking for the password: %v", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	fmt.Fprint(p.Stderr, prompt)
	defer fmt.Fprintln(p.Stderr)
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
			return nil, exit.Coded(exit.System, "asking for the password: %v", got.err)
		}
		return got.text, nil
	case <-ctx.Done():
		_ = term.Restore(fd, before)
		return nil, exit.Coded(exit.Interrupted, "stopped while asking for the password")
	}
}

// TrustedKeys are the public keys that the command line names, and how many of them must have signed.
type TrustedKeys struct {
	Files     []string
	threshold int
}

// Declare declares the flags.
func (k *TrustedKeys) Declare(f *pflag.FlagSet) {
	f.StringArrayVarP(&k.Files, "key", "k", nil, "require a signature by the public key in `FILE`; can be repeated")
	f.IntVar(&k.threshold, "threshold", 0, "require signatures by `N` of the keys; 0 requires all")
}

// PublicKey is a public key, and the file that it was given as.
type PublicKey struct {
	signature.PublicKey
	File string
}

// Open reads the keys. Each is there once.
func (k *TrustedKeys) Open() (keys []PublicKey, threshold int, err error) {
	if len(k.Files) == 0 {
		return nil, 0, exit.Usage("--key is missing").Hinted("name the public key of the expected signer, for example --key ci.pub")
	}
	known := map[string]bool{}
	for _, file := range k.Files {
		text, err := readKey(file)
		if err != nil {
			return nil, 0, err
		}
		key, err := signature.ParsePublicKey(text)
		if err != nil {
			return nil, 0, keyError(file, err)
		}
		if !known[key.ID()] {
			known[key.ID()] = true
			keys = append(keys, PublicKey{key, file})
		}
	}
	switch {
	case k.threshold == 0:
		return keys, len(keys), nil
	case k.threshold < 0 || k.threshold > len(keys):
		return nil, 0, exit.Usage("--threshold: %d is not possible with %d keys", k.threshold, len(keys)).Hinted("use --threshold from 1 to the number of different keys")
	}
	return keys, k.threshold, nil
}
