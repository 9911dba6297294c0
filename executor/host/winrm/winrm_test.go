//go:build unix

package winrm_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/winrm"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "host" {
		hosttest.Main(m)
	}
	var err error
	if programs, err = os.MkdirTemp("", "rung-programs-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(programs)
	os.Exit(code)
}

// options lead to a server.
func options(s *server) winrm.Options {
	o := winrm.Options{
		Address: s.Listener.Addr().String(), HTTPS: s.TLS != nil, User: user, Password: password, Basic: s.basic,
		Program: func(host.Platform) (string, error) { return os.Executable() },
	}
	if s.TLS != nil {
		o.Fingerprint = "SHA256:another " + winrm.Fingerprint(s.Certificate().Raw)
	}
	return o
}

func connect(t *testing.T, s *server) *winrm.Host {
	t.Helper()
	h, err := winrm.New(t.Context(), options(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	if h.Platform() != (host.Platform{OS: "windows", Arch: "amd64"}) {
		t.Errorf("it is a machine of %s", h.Platform())
	}
	h.Pretend(host.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH})
	return h
}

// ways are those of logging in.
var ways = map[string]func(*testing.T) *server{
	"NTLM over HTTP, sealed": func(t *testing.T) *server { return serve(t, false, false) },
	"NTLM over HTTPS":        func(t *testing.T) *server { return serve(t, true, false) },
	"basic over HTTPS":       func(t *testing.T) *server { return serve(t, true, true) },
}

// run runs a command to its end.
func run(t *testing.T, h host.Host, c *host.Command) (code int, out, errs string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	p, err := h.Exec(t.Context(), c)
	if err != nil {
		return -1, "", "", err
	}
	code, err = p.Wait()
	return code, stdout.String(), stderr.String(), err
}

func TestCommandsRun(t *testing.T) {
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			s := start(t)
			h := connect(t, s)
			dir, secret := t.TempDir(), "s3cret"
			code, out, errs, err := run(t, h, &host.Command{
				Args: []string{"sh", "-c", `echo "$A"; pwd; cat; echo "$1" >&2; exit 7`, "sh", "an argument"},
				Env:  []string{"A=" + secret}, Dir: dir, Stdin: strings.NewReader("the input"),
			})
			if want := secret + "\n" + dir + "\nthe input"; code != 7 || err != nil || out != want || errs != "an argument\n" {
				t.Errorf("%d, %v, %q, %q", code, err, out, errs)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, line := range s.lines {
				if len(line) > 8191 {
					t.Errorf("a command line has %d characters", len(line))
				}
				if strings.Contains(line, secret) || line != winrm.Launch && line != winrm.Put && !strings.HasPrefix(line, "echo ") {
					t.Errorf("a command line is %q", line)
				}
			}
			if len(s.clear) > 0 {
				t.Errorf("without a seal came %q", s.clear)
			}
		})
	}
}

func TestWhoIsNotLetIn(t *testing.T) {
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			s := start(t)
			o := options(s)
			o.Password = "wrong"
			if h, err := winrm.New(t.Context(), o); err == nil {
				h.Close()
				t.Error("a wrong password is let in")
			} else if strings.Contains(err.Error(), "wrong") {
				t.Errorf("the error holds the password: %v", err)
			} else if !errors.Is(err, host.ErrRefused) {
				t.Errorf("it is not a refusal: %v", err)
			}
			if s.TLS == nil {
				return
			}
			o = options(s)
			o.Fingerprint = "SHA256:other"
			if h, err := winrm.New(t.Context(), o); err == nil {
				h.Close()
				t.Error("a server with another certificate is believed")
			}
			o.Fingerprint = ""
			if h, err := winrm.New(t.Context(), o); err == nil {
				h.Close()
				t.Error("a server with a certificate of nobody is believed")
			}
			o.Roots = x509.NewCertPool()
			o.Roots.AddCert(s.Certificate())
			h, err := winrm.New(t.Context(), o)
			if err != nil {
				t.Fatal("a certificate of a root is not believed:", err)
			}
			h.Close()
		})
	}
	if _, err := winrm.New(t.Context(), winrm.Options{Address: "127.0.0.1", Basic: true}); err == nil {
		t.Error("a password is shown to everybody on the way")
	}
}

func TestTheMachineIsAHost(t *testing.T) {
	h := connect(t, serve(t, true, true))
	hosttest.RunParts(t, h, "Dial", "Put", "Files")
}

func TestTheEndOfTheOtherSideIsSeen(t *testing.T) {
	h := connect(t, serve(t, true, true))
	l := hosttest.Listen(t, "tcp", "127.0.0.1:0")
	go func() {
		if conn, err := l.Accept(); err == nil {
			_, _ = io.WriteString(conn, "bye")
			conn.Close()
		}
	}()
	conn, err := h.Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got, err := io.ReadAll(conn); string(got) != "bye" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestArgumentsArriveAsTheyAre(t *testing.T) {
	h := connect(t, serve(t, true, true))
	want := []string{"", " ", `"`, `\`, `a\`, `a b\`, `a\\" b`, `\"`, "tab\there", "naïve ☃", "$HOME %PATH% `x` 'y' &|<>^", `C:\Program Files\x`}
	code, out, _, err := run(t, h, &host.Command{Args: append([]string{"sh", "-c", `for a; do printf "%s\0" "$a"; done`, "sh"}, want...)})
	if got := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"); code != 0 || err != nil || !slices.Equal(got, want) {
		t.Errorf("%d, %v, %q", code, err, got)
	}
}

func TestInputAndOutputAreBinary(t *testing.T) {
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			h := connect(t, start(t))
			in := make([]byte, 1<<20)
			for i := range in {
				in[i] = byte(rand.Uint32())
			}
			code, out, errs, err := run(t, h, &host.Command{Args: []string{"sh", "-c", "tee /dev/stderr"}, Stdin: bytes.NewReader(in)})
			if code != 0 || err != nil || out != string(in) || errs != string(in) {
				t.Errorf("%d, %v, %d bytes of output, %d of errors", code, err, len(out), len(errs))
			}
		})
	}
}

func TestACommandIsStopped(t *testing.T) {
	h := connect(t, serve(t, false, false))
	child := filepath.Join(t.TempDir(), "child")
	start := func(ctx context.Context) host.Process {
		_ = os.Remove(child)
		p, err := h.Exec(ctx, &host.Command{Args: []string{"sh", "-c", `sleep 1000 & echo $! >"$0.new"; mv "$0.new" "$0"; wait`, child}})
		if err != nil {
			t.Fatal(err)
		}
		if p.PID() < 1 {
			t.Errorf("its process is %d", p.PID())
		}
		for until := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(child); err == nil {
				return p
			}
			if time.Now().After(until) {
				t.Fatal("it has not begun")
			}
		}
	}
	gone := func() {
		t.Helper()
		text, _ := os.ReadFile(child)
		for until := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/stat")
			if err != nil || bytes.Contains(stat, []byte(") Z ")) {
				return
			}
			if time.Now().After(until) {
				t.Fatal("what it has started runs on")
			}
		}
	}
	t.Run("by Kill", func(t *testing.T) {
		p := start(t.Context())
		if err := errors.Join(p.Kill(), p.Kill()); err != nil {
			t.Error(err)
		}
		if code, err := p.Wait(); code != -1 || !errors.Is(err, host.ErrKilled) {
			t.Error(code, err)
		}
		gone()
	})
	t.Run("by its context", func(t *testing.T) {
		stop := errors.New("stopped by the test")
		ctx, cancel := context.WithCancelCause(t.Context())
		p := start(ctx)
		cancel(stop)
		if code, err := p.Wait(); code != -1 || !errors.Is(err, stop) {
			t.Error(code, err)
		}
		gone()
		if _, err := h.Exec(ctx, &host.Command{Args: []string{"true"}}); !errors.Is(err, stop) {
			t.Errorf("with a context that has ended: %v", err)
		}
	})
}

func TestAProgramThatCannotStart(t *testing.T) {
	h := connect(t, serve(t, true, true))
	for program, want := range map[string]error{"no-such-program": fs.ErrNotExist, t.TempDir(): fs.ErrPermission} {
		_, _, _, err := run(t, h, &host.Command{Args: []string{program}})
		var not *host.StartError
		if !errors.As(err, &not) || !errors.Is(err, want) || not.Program != program || not.Reason == "" {
			t.Errorf("%s: %v", program, err)
		}
	}
	for _, c := range []*host.Command{{}, {Args: []string{"a\x00b"}}, {Args: []string{"sh"}, Terminal: &host.Terminal{}}} {
		if _, err := h.Exec(t.Context(), c); err == nil {
			t.Errorf("%+v is started", c)
		}
	}
}

func TestManyCommandsAtOnce(t *testing.T) {
	h := connect(t, serve(t, false, false))
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			code, out, _, err := run(t, h, &host.Command{Args: []string{"sh", "-c", `read line; echo "$line"; exit $0`, fmt.Sprint(i)}, Stdin: strings.NewReader(fmt.Sprint("input ", i, "\n"))})
			if code != i || err != nil || out != fmt.Sprint("input ", i, "\n") {
				t.Errorf("%d: %d, %v, %q", i, code, err, out)
			}
		})
	}
	all.Wait()
}

func TestAnInputThatNeverEndsKeepsNobodyWaiting(t *testing.T) {
	h := connect(t, serve(t, true, true))
	never, feed := io.Pipe()
	defer feed.Close()
	if code, _, _, err := run(t, h, &host.Command{Args: []string{"sh", "-c", "exit 3"}, Stdin: never}); code != 3 || err != nil {
		t.Error(code, err)
	}
}

func TestInputThatIsNotTakenIsNotAllOfIt(t *testing.T) {
	s := serve(t, true, true)
	h := connect(t, s)
	in, feed := io.Pipe()
	defer feed.Close()
	out := make(chan string, 10)
	p, err := h.Exec(t.Context(), &host.Command{Args: []string{"sh", "-c", "cat; echo the end"}, Stdin: in, Stdout: writer(func(text string) { out <- text })})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(feed, "some")
	if got := <-out; got != "some" {
		t.Errorf("it has read %q", got)
	}
	s.mu.Lock()
	s.deaf = true
	s.mu.Unlock()
	_, _ = io.WriteString(feed, "more")
	feed.Close()
	if code, err := p.Wait(); code != -1 || !errors.Is(err, host.ErrLost) {
		t.Error(code, err)
	}
	select {
	case got := <-out:
		t.Errorf("it has taken a part for all, and writes %q", got)
	default:
	}
}

type writer func(string)

func (w writer) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }

func TestAMachineThatIsAwayIsLost(t *testing.T) {
	s := serve(t, true, true)
	o := options(s)
	o.LostAfter = 2 * time.Second // longer than a busy machine says nothing
	h, err := winrm.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	p, err := h.Exec(t.Context(), &host.Command{Args: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Listener.Close()
	s.CloseClientConnections()
	if code, err := p.Wait(); code != -1 || !errors.Is(err, host.ErrLost) {
		t.Error(code, err)
	}
	select {
	case <-h.Done():
	case <-time.After(time.Minute):
		t.Fatal("it is not lost")
	}
	if !errors.Is(h.Err(), host.ErrLost) {
		t.Error(h.Err())
	}
	if _, err := h.Exec(t.Context(), &host.Command{Args: []string{"true"}}); !errors.Is(err, host.ErrLost) {
		t.Error(err)
	}
}

func TestOptionsShowNoPassword(t *testing.T) {
	o := &winrm.Options{Address: "h", User: "u", Password: "hunter2"}
	if text := fmt.Sprintf("%v %s", o, o); strings.Contains(text, "hunter2") || !strings.Contains(text, "http://h:5985/wsman") {
		t.Error(text)
	}
}

// TestTheScriptsAreThoseOfPowerShell reads them with PowerShell, where it is.
func TestTheScriptsAreThoseOfPowerShell(t *testing.T) {
	shell, err := exec.LookPath("pwsh")
	if err != nil {
		t.Skip("PowerShell is not on this machine")
	}
	for _, script := range []string{"launch.ps1", "put.ps1"} {
		out, err := exec.Command(shell, "-NoProfile", "-NonInteractive", "-Command",
			"$e = $null; [void][Management.Automation.Language.Parser]::ParseFile('"+script+"', [ref]$null, [ref]$e); $e; exit $e.Count").CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}
