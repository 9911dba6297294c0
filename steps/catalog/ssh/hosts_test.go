//go:build unix

package ssh

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"net"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/steps/catalog/programtest"
)

// serve runs an SSH server that lets one key in and answers every command with a line. It returns its port, and its host key.
func serve(t *testing.T, allowed string) (port string, host ssh.PublicKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if ssh.FingerprintSHA256(key) != allowed {
			return nil, ssh.ErrNoAuth
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answer(conn, config)
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, signer.PublicKey()
}

func answer(conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			_ = r.Reply(r.Type == "exec" || r.Type == "env", nil)
			if r.Type == "exec" {
				_, _ = channel.Write(append([]byte("the server runs: "), append(bytes.TrimSpace(r.Payload[4:]), '\n')...))
				_, _ = channel.SendRequest("exit-status", false, []byte{0, 0, 0, 0})
				channel.Close()
			}
		}
	}
}

func TestHostsAreKnown(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skipf("needs ssh: %v", err)
	}
	k := makeKey(t, "ed25519")
	port, host := serve(t, k.fingerprint)
	known := "[127.0.0.1]:" + port + " " + string(ssh.MarshalAuthorizedKey(host))
	other := "[127.0.0.1]:" + port + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(publicOf(t))))
	run := func(t *testing.T, script, hosts string, env ...string) *programtest.Result {
		t.Helper()
		in := withKeys(script, k)
		in["known_hosts"] = hosts
		return programtest.Run(t, Agent, t.TempDir(), in, env...)
	}
	command := "ssh -o ConnectTimeout=20 -p " + port + " git@127.0.0.1 'say hello'"
	t.Run("by ssh in the script, which gets in with the agent's key", func(t *testing.T) {
		t.Parallel()
		if r := run(t, command, known); r.Err != nil || !strings.Contains(r.Log, "the server runs: say hello") {
			t.Errorf("%v\n%s", r.Err, r.Log)
		}
	})
	t.Run("and one with another key is refused", func(t *testing.T) {
		t.Parallel()
		if r := run(t, command, other); r.Err == nil || !strings.Contains(r.Log, "Host key verification failed") {
			t.Errorf("%v\n%s", r.Err, r.Log)
		}
	})
	t.Run("by git, which uses them too", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("git"); err != nil {
			t.Skipf("needs git: %v", err)
		}
		r := run(t, "git ls-remote ssh://git@127.0.0.1:"+port+"/group/project.git", known)
		if r.Err == nil || strings.Contains(r.Log, "verification") || !strings.Contains(r.Log, "bad line length") { // it is not a git that answers
			t.Errorf("%v\n%s", r.Err, r.Log)
		}
		r = run(t, "git ls-remote ssh://git@127.0.0.1:"+port+"/group/project.git", other)
		if r.Err == nil || !strings.Contains(r.Log, "Host key verification failed") {
			t.Errorf("%v\n%s", r.Err, r.Log)
		}
	})
	t.Run("and a command for git that the job has set stays", func(t *testing.T) {
		t.Parallel()
		r := run(t, `echo "$GIT_SSH_COMMAND"`, known, "GIT_SSH_COMMAND=ssh -v")
		if r.Err != nil || !strings.Contains(r.Log, "\nssh -v\n") || !strings.Contains(r.Log, "warning: GIT_SSH_COMMAND is set") {
			t.Errorf("%v\n%s", r.Err, r.Log)
		}
	})
}

func publicOf(t *testing.T) ssh.PublicKey {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
