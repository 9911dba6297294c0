//go:build unix

package ssh_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/ssh"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

// options reach a server, with this test program for files.
func options(s *hosttest.SSHD) ssh.Options {
	return ssh.Options{
		Address: s.Address, Key: s.Key, KnownHosts: []string{s.KnownHosts}, Config: []string{},
		Program: func(host.Platform) (string, error) { return os.Executable() },
	}
}

func connect(t testing.TB, o ssh.Options) *ssh.Host {
	t.Helper()
	h, err := ssh.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// run runs shell text on a host.
func run(t testing.TB, h host.Host, text string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	p, err := h.Exec(t.Context(), &host.Command{Args: []string{"sh", "-c", text}, Stdout: &out})
	if err != nil {
		return "", err
	}
	code, err := p.Wait()
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d", code)
	}
	return out.String(), err
}

func TestAMachineBehindSSHIsAHost(t *testing.T) {
	s := hosttest.StartSSHD(t)
	// What a shell's start files print is not the output of commands.
	if err := os.WriteFile(filepath.Join(s.Home, ".bashrc"), []byte("echo welcome; echo careful >&2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hosttest.Run(t, func(t *testing.T) host.Host { return connect(t, options(s)) })
}

func TestAHostIsNamedByItsAddress(t *testing.T) {
	s := hosttest.StartSSHD(t)
	h := connect(t, options(s))
	if h.Name() != "ssh://"+s.Address {
		t.Errorf("it is called %s", h.Name())
	}
}

func TestMoreSessionsThanOneConnectionTakes(t *testing.T) {
	s := hosttest.StartSSHD(t, "MaxSessions 2")
	h := connect(t, options(s))
	var feeds []io.Closer
	var processes []host.Process
	for range 5 {
		in, feed := io.Pipe()
		p, err := h.Exec(t.Context(), &host.Command{Args: []string{"cat"}, Stdin: in})
		if err != nil {
			t.Fatal(err)
		}
		feeds, processes = append(feeds, feed), append(processes, p)
	}
	if s.Accepted() != 3 {
		t.Errorf("5 commands take %d connections", s.Accepted())
	}
	for i, p := range processes {
		_ = feeds[i].Close()
		if code, err := p.Wait(); code != 0 || err != nil {
			t.Error(code, err)
		}
	}
	if _, err := run(t, h, "true"); err != nil || s.Accepted() != 3 {
		t.Errorf("%v, %d connections", err, s.Accepted())
	}
}

func TestAServerThatAllowsNoSessionsSaysSo(t *testing.T) {
	s := hosttest.StartSSHD(t, "MaxSessions 0")
	if _, err := ssh.New(t.Context(), options(s)); err == nil || !strings.Contains(err.Error(), "refuses") {
		t.Error(err)
	}
}

func TestABrokenConnection(t *testing.T) {
	t.Run("ends commands and connections with ErrLost, and later ones make a new one", func(t *testing.T) {
		s := hosttest.StartSSHD(t)
		h := connect(t, options(s))
		in, feed := io.Pipe()
		defer feed.Close()
		p, err := h.Exec(t.Context(), &host.Command{Args: []string{"sh", "-c", "echo $$; cat"}, Stdin: in})
		if err != nil {
			t.Fatal(err)
		}
		s.Cut()
		if code, err := p.Wait(); code != -1 || !errors.Is(err, host.ErrLost) || !strings.Contains(err.Error(), h.Name()) {
			t.Error(code, err)
		}
		if out, err := run(t, h, "echo again"); out != "again\n" || err != nil {
			t.Errorf("%q, %v", out, err)
		}
		if info, err := h.Files().Stat(t.Context(), s.Home); err != nil || !info.Mode.IsDir() {
			t.Error(info, err)
		}
		select {
		case <-h.Done():
			t.Error("the host is given up: ", h.Err())
		default:
		}
	})
	t.Run("does not end commands that need no output, nor does closing the host", func(t *testing.T) {
		s := hosttest.StartSSHD(t)
		for _, cut := range []func(*ssh.Host){func(*ssh.Host) { s.Cut() }, func(h *ssh.Host) { _ = h.Close() }} {
			h := connect(t, options(s))
			file := filepath.Join(t.TempDir(), "file")
			p, err := h.Exec(t.Context(), &host.Command{Args: []string{"sh", "-c", `cat; echo done >"$1"`, "sh", file}, Stdin: neverEnds{t.Context()}})
			if err != nil {
				t.Fatal(err)
			}
			cut(h)
			if _, err := p.Wait(); !errors.Is(err, host.ErrLost) {
				t.Error(err)
			}
			if _, err := run(t, connect(t, options(s)), "until test -s "+file+"; do sleep 0.02; done"); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("to a server that is gone ends the host", func(t *testing.T) {
		s := hosttest.StartSSHD(t)
		o := options(s)
		o.LostAfter = 3 * time.Second // long enough for a busy machine to answer
		h := connect(t, o)
		s.Away(true)
		s.Cut()
		<-h.Done()
		if !errors.Is(h.Err(), host.ErrLost) {
			t.Error(h.Err())
		}
		if _, err := run(t, h, "true"); !errors.Is(err, host.ErrLost) {
			t.Error(err)
		}
		if _, err := h.Dial(t.Context(), "tcp", "127.0.0.1:1"); !errors.Is(err, host.ErrLost) {
			t.Error(err)
		}
	})
	t.Run("that is open, but silent, ends the host", func(t *testing.T) {
		s := hosttest.StartSSHD(t)
		o := options(s)
		o.LostAfter = 3 * time.Second // long enough for a busy machine to answer
		h := connect(t, o)
		in, feed := io.Pipe()
		defer feed.Close()
		p, err := h.Exec(t.Context(), &host.Command{Args: []string{"cat"}, Stdin: in})
		if err != nil {
			t.Fatal(err)
		}
		s.Away(true)
		s.Freeze()
		if _, err := p.Wait(); !errors.Is(err, host.ErrLost) {
			t.Error(err)
		}
		<-h.Done()
	})
	t.Run("is given up within the time of the contract", func(t *testing.T) {
		if testing.Short() {
			t.Skip("takes as long as a host may be unreachable")
		}
		t.Parallel()
		s := hosttest.StartSSHD(t)
		h := connect(t, options(s))
		s.Away(true)
		s.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), host.LostAfter)
		defer cancel()
		select {
		case <-h.Done():
		case <-ctx.Done():
			t.Error("the host is not given up")
		}
	})
}

// neverEnds is an input that ends with the test.
type neverEnds struct{ ctx context.Context }

func (n neverEnds) Read([]byte) (int, error) {
	<-n.ctx.Done()
	return 0, io.EOF
}

func TestAClosedHostDoesNothing(t *testing.T) {
	s := hosttest.StartSSHD(t)
	h := connect(t, options(s))
	if err := errors.Join(h.Close(), h.Close()); err != nil {
		t.Error(err)
	}
	if _, err := run(t, h, "true"); err == nil {
		t.Error("a command has run")
	}
	select {
	case <-h.Done():
		t.Error("the host is lost")
	default:
	}
}

func TestHostKeys(t *testing.T) {
	s := hosttest.StartSSHD(t)
	fingerprint := gossh.FingerprintSHA256(s.HostKey)
	_, port, _ := strings.Cut(strings.SplitN(s.Address, "@", 2)[1], ":")
	refused := func(t *testing.T, o ssh.Options) *ssh.AccessError {
		t.Helper()
		_, err := ssh.New(t.Context(), o)
		var e *ssh.AccessError
		if !errors.As(err, &e) || !errors.Is(err, host.ErrRefused) {
			t.Fatalf("got %v", err)
		}
		return e
	}
	t.Run("an unknown host is refused, with its fingerprint and what to do", func(t *testing.T) {
		o := options(s)
		o.KnownHosts = []string{filepath.Join(t.TempDir(), "known_hosts")}
		if e := refused(t, o); !strings.Contains(e.Message, fingerprint) || !strings.Contains(e.Hint, "ssh-keyscan -p "+port+" 127.0.0.1 >> "+o.KnownHosts[0]) {
			t.Error(e)
		}
	})
	t.Run("a host with another key is refused", func(t *testing.T) {
		o := options(s)
		other := hosttest.WriteKey(t, filepath.Join(t.TempDir(), "key"))
		o.KnownHosts = []string{filepath.Join(t.TempDir(), "known_hosts")}
		if err := os.WriteFile(o.KnownHosts[0], fmt.Appendf(nil, "[127.0.0.1]:%s %s", port, gossh.MarshalAuthorizedKey(other)), 0o600); err != nil {
			t.Fatal(err)
		}
		o.Record = true // which is for unknown hosts alone
		if e := refused(t, o); !strings.Contains(e.Message, "has changed") || !strings.Contains(e.Message, fingerprint) || !strings.Contains(e.Hint, o.KnownHosts[0]) {
			t.Error(e)
		}
	})
	t.Run("a fingerprint stands for known_hosts", func(t *testing.T) {
		o := options(s)
		o.KnownHosts, o.Fingerprint = []string{}, fingerprint
		if _, err := run(t, connect(t, o), "true"); err != nil {
			t.Error(err)
		}
		o.Fingerprint = gossh.FingerprintSHA256(hosttest.WriteKey(t, filepath.Join(t.TempDir(), "key")))
		if e := refused(t, o); !strings.Contains(e.Message, fingerprint) || !strings.Contains(e.Message, o.Fingerprint) {
			t.Error(e)
		}
	})
	t.Run("a key is recorded on first use if asked", func(t *testing.T) {
		o := options(s)
		o.KnownHosts, o.Record = []string{filepath.Join(t.TempDir(), "new", "known_hosts")}, true
		connect(t, o)
		o.Record = false
		connect(t, o)
	})
}

func TestAUserWhoMayNotLogIn(t *testing.T) {
	s := hosttest.StartSSHD(t)
	o := options(s)
	o.Key = filepath.Join(t.TempDir(), "other")
	hosttest.WriteKey(t, o.Key)
	_, err := ssh.New(t.Context(), o)
	var e *ssh.AccessError
	if !errors.As(err, &e) || !errors.Is(err, host.ErrRefused) || !strings.Contains(e.Hint, "tried "+o.Key) {
		t.Error(err)
	}
}

func TestTheSSHConfigurationIsUsed(t *testing.T) {
	jump, s := hosttest.StartSSHD(t), hosttest.StartSSHD(t)
	me, at, _ := strings.Cut(s.Address, "@")
	address, port, _ := strings.Cut(at, ":")
	_, jumpPort, _ := strings.Cut(jump.Address, ":")
	config := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("Host build-1\n  HostName %s\n  Port %s\n  User %s\n  ProxyJump bastion\nHost bastion\n  HostName %s\n  Port %s\n  User %s\n", address, port, me, address, jumpPort, me)
	known, err := os.ReadFile(jump.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(s.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := os.ReadFile(s.Key)
	if err != nil {
		t.Fatal(err)
	}
	text += "Host *\n  IdentityFile " + s.Key + "\n  IdentityFile " + jump.Key + "\n"
	o := options(s)
	o.Address, o.Key, o.Config, o.KnownHosts = "build-1", "", []string{config}, []string{filepath.Join(t.TempDir(), "known_hosts")}
	t.Setenv("SSH_AUTH_SOCK", "")
	t.Setenv("HOME", t.TempDir())
	if err := errors.Join(os.WriteFile(config, []byte(text), 0o600), os.WriteFile(o.KnownHosts[0], append(known, second...), 0o600)); err != nil || len(keys) == 0 {
		t.Fatal(err)
	}
	h := connect(t, o)
	if out, err := run(t, h, "echo through"); out != "through\n" || err != nil || jump.Accepted() != 1 || s.Accepted() != 1 {
		t.Errorf("%q, %v, %d and %d connections", out, err, jump.Accepted(), s.Accepted())
	}
	if want := "ssh://" + me + "@build-1:" + port; h.Name() != want {
		t.Errorf("it is called %s, not %s", h.Name(), want)
	}
	t.Run("and what it says can be replaced", func(t *testing.T) {
		o.Jump = "none"
		connect(t, o)
		if jump.Accepted() != 1 {
			t.Error("the jump host is used")
		}
	})
}

func TestForwardingThatIsNotAllowedSaysWhatToSet(t *testing.T) {
	s := hosttest.StartSSHD(t, "AllowTcpForwarding no", "AllowStreamLocalForwarding no")
	h := connect(t, options(s))
	for network, option := range map[string]string{"tcp": "AllowTcpForwarding", "unix": "AllowStreamLocalForwarding"} {
		if _, err := h.Dial(t.Context(), network, map[string]string{"tcp": "127.0.0.1:1", "unix": "/none"}[network]); err == nil || !strings.Contains(err.Error(), option) {
			t.Error(err)
		}
	}
}

func TestALoginShellThatRunsNothingSaysSo(t *testing.T) {
	s := hosttest.StartSSHD(t, "ForceCommand echo this account is not available; exit 1")
	if _, err := ssh.New(t.Context(), options(s)); err == nil || !strings.Contains(err.Error(), "this account is not available") {
		t.Error(err)
	}
}

func TestWhatAHostLacks(t *testing.T) {
	s := hosttest.StartSSHD(t)
	o := options(s)
	o.Program = nil
	if _, err := connect(t, o).Files().Temp(t.Context()); err == nil || !strings.Contains(err.Error(), "step-runner") {
		t.Error(err)
	}
}

func BenchmarkHost(b *testing.B) {
	s := hosttest.StartSSHD(b)
	hosttest.Benchmark(b, connect(b, options(s)))
}
