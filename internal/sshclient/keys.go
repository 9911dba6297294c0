package sshclient

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	sshagent "github.com/xanzy/ssh-agent"
	"golang.org/x/crypto/ssh"
)

// keys are the private keys that there are.
type keys struct {
	signers   []ssh.Signer
	tried     []string // where they are from
	encrypted []string // files that need a passphrase
	broken    []string // files that cannot be used, and why
	agent     net.Conn
}

// findKeys gets the keys for a host: the one that was configured; else those of ~/.ssh/config, of the agent and of the files
// that ssh looks for.
func findKeys(s *settings) *keys {
	k := &keys{}
	if !s.only {
		k.addAgent()
	}
	files := s.keys
	if !s.only {
		for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			files = append(files, inHome("~/.ssh/"+name))
		}
	}
	for _, file := range files {
		k.addFile(file, s.only)
	}
	if s.keyText != nil {
		k.addText("the key that was given", s.keyText)
	}
	return k
}

func (k *keys) addAgent() {
	if !sshagent.Available() {
		return
	}
	agent, conn, err := sshagent.New()
	if err != nil {
		k.broken = append(k.broken, "the SSH agent cannot be reached")
		return
	}
	k.agent = conn
	signers, err := agent.Signers()
	if err != nil {
		k.broken = append(k.broken, "the SSH agent does not answer")
		return
	}
	k.signers = append(k.signers, signers...)
	k.tried = append(k.tried, fmt.Sprintf("the SSH agent (%d)", len(signers)))
}

func (k *keys) addFile(file string, wanted bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		if wanted || !errors.Is(err, os.ErrNotExist) {
			k.broken = append(k.broken, err.Error())
		}
		return
	}
	k.addText(file, text)
}

// addText adds a key that is from somewhere.
func (k *keys) addText(from string, text []byte) {
	signer, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		k.encrypted = append(k.encrypted, from)
	case err != nil:
		k.broken = append(k.broken, from+" is not a private key")
	default:
		k.signers = append(k.signers, signer)
		k.tried = append(k.tried, from)
	}
}

func (k *keys) close() {
	if k.agent != nil {
		_ = k.agent.Close()
	}
}

// methods returns all keys as one way to get in, because ssh tries each way once.
func (k *keys) methods(password string) []ssh.AuthMethod {
	methods := []ssh.AuthMethod{ssh.PublicKeys(k.signers...)}
	if password != "" {
		methods = append(methods, ssh.Password(password))
	}
	return methods
}

// hint says which keys were tried, and what keeps others from being used.
func (k *keys) hint() string {
	hint := "no key exists: create one with ssh-keygen and add it to the host's authorized_keys"
	if len(k.tried) > 0 {
		hint = "tried " + strings.Join(k.tried, ", ")
	}
	if len(k.encrypted) > 0 {
		hint += "; " + strings.Join(k.encrypted, ", ") + " needs a passphrase: add it to the SSH agent with ssh-add"
	}
	if len(k.broken) > 0 {
		hint += "; " + strings.Join(k.broken, ", ")
	}
	return hint
}
