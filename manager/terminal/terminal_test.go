package terminal_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
	"github.com/rungci/rung/manager/terminal"
)

func listen(t *testing.T) *terminal.Server {
	t.Helper()
	s, err := terminal.Listen(terminal.Options{Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// echo is a shell that says the size of its terminal and repeats what is typed, until that is "exit".
func echo(ctx context.Context, shell *executor.Shell) (int, error) {
	size := <-shell.Resize
	if _, err := io.WriteString(shell.Stdout, strings.Repeat("x", int(size.Columns))+"$ "); err != nil {
		return -1, err
	}
	buffer := make([]byte, 1<<10)
	for {
		n, err := shell.Stdin.Read(buffer)
		if ctx.Err() != nil {
			return -1, context.Cause(ctx)
		}
		if err != nil || string(buffer[:n]) == "exit\n" {
			return 0, nil
		}
		if _, err := shell.Stdout.Write(append([]byte("echo "), buffer[:n]...)); err != nil {
			return -1, err
		}
	}
}

func open(t *testing.T, s *terminal.Session, protocol string) *gitlabtest.Terminal {
	t.Helper()
	c, err := gitlabtest.OpenTerminal(t.Context(), s.Info(), protocol)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAPersonTypesAndSees(t *testing.T) {
	for _, protocol := range []string{gitlabtest.TerminalProtocol, gitlabtest.Base64TerminalProtocol} {
		t.Run(protocol, func(t *testing.T) {
			s := listen(t).Begin(time.Minute)
			s.Open(1, echo)
			c := open(t, s, protocol)
			if _, err := c.Until(t.Context(), "$ "); err != nil {
				t.Fatal(err)
			}
			_ = c.Type(t.Context(), "ls é\n")
			if shown, err := c.Until(t.Context(), "echo ls é\n"); err != nil {
				t.Errorf("%v after %q", err, shown)
			}
			_ = c.Type(t.Context(), "exit\n")
			if _, reason, err := c.Ended(t.Context()); err != nil || reason != "the shell has ended" {
				t.Errorf("ended with %q, %v", reason, err)
			}
		})
	}
}

func TestWhatOpensNoTerminalIsRefusedAsGitLabRunnerDoes(t *testing.T) {
	server := listen(t)
	s := server.Begin(time.Minute)
	s.Open(1, echo)
	own := s.Info()
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(own.Certificate))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}}
	for name, test := range map[string]struct {
		method, path, authorization, upgrade string
		status                               int
	}{
		"no authorization":        {"GET", "/exec", "", "websocket", http.StatusUnauthorized},
		"another authorization":   {"GET", "/exec", own.Authorization + "x", "websocket", http.StatusUnauthorized},
		"no websocket":            {"GET", "/exec", own.Authorization, "", http.StatusMethodNotAllowed},
		"another method":          {"POST", "/exec", own.Authorization, "websocket", http.StatusMethodNotAllowed},
		"another session":         {"GET", "x/exec", own.Authorization, "websocket", http.StatusNotFound},
		"nothing":                 {"GET", "", own.Authorization, "websocket", http.StatusNotFound},
		"a service":               {"GET", "/proxy/web/80/", own.Authorization, "", http.StatusNotFound},
		"a service, unauthorized": {"GET", "/proxy/web/80/", "", "", http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := http.NewRequestWithContext(t.Context(), test.method, own.URL+test.path, nil)
			r.Header.Set("Authorization", test.authorization)
			if test.upgrade != "" {
				r.Header.Set("Connection", "Upgrade")
				r.Header.Set("Upgrade", test.upgrade)
			}
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != test.status {
				t.Errorf("status %d, want %d", answer.StatusCode, test.status)
			}
		})
	}
	t.Run("a second person", func(t *testing.T) {
		first := open(t, s, gitlabtest.TerminalProtocol)
		var refused *gitlabtest.StatusError
		if _, err := gitlabtest.OpenTerminal(t.Context(), own, gitlabtest.TerminalProtocol); !errors.As(err, &refused) || refused.Status != http.StatusLocked {
			t.Error(err)
		}
		first.Close()
		for {
			again, err := gitlabtest.OpenTerminal(t.Context(), own, gitlabtest.TerminalProtocol)
			if err == nil {
				again.Close()
				return
			}
			if !errors.As(err, &refused) {
				t.Fatal(err)
			}
		}
	})
	t.Run("after the end", func(t *testing.T) {
		s.Close()
		var refused *gitlabtest.StatusError
		if _, err := gitlabtest.OpenTerminal(t.Context(), own, gitlabtest.TerminalProtocol); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
			t.Error(err)
		}
	})
	t.Run("before there is an environment", func(t *testing.T) {
		none := server.Begin(time.Minute)
		went := make(chan error, 1)
		go func() {
			_, err := gitlabtest.OpenTerminal(t.Context(), none.Info(), gitlabtest.TerminalProtocol)
			went <- err
		}()
		time.Sleep(50 * time.Millisecond) // it may as well come too late, which is refused, too
		none.Close()
		var refused *gitlabtest.StatusError
		if err := <-went; !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable && refused.Status != http.StatusNotFound {
			t.Error(err)
		}
	})
}

func TestAnEndedJobWaitsForItsTerminal(t *testing.T) {
	begin := func(t *testing.T, limit time.Duration) (*terminal.Session, *gitlabtest.Terminal) {
		s := listen(t).Begin(limit)
		s.Open(1, echo)
		c := open(t, s, gitlabtest.TerminalProtocol)
		if _, err := c.Until(t.Context(), "$ "); err != nil {
			t.Fatal(err)
		}
		return s, c
	}
	t.Run("until it is left", func(t *testing.T) {
		s, c := begin(t, time.Hour)
		waited := make(chan struct{})
		go func() { s.Wait(t.Context()); close(waited) }()
		if _, err := c.Until(t.Context(), "The job has ended. It waits until this terminal is closed, for 1h0m0s at most."); err != nil {
			t.Fatal(err)
		}
		_ = c.Type(t.Context(), "still here\n")
		if _, err := c.Until(t.Context(), "echo still here"); err != nil {
			t.Fatal(err)
		}
		c.Close()
		<-waited
	})
	t.Run("until its time is over", func(t *testing.T) {
		s, c := begin(t, 20*time.Millisecond)
		s.Wait(t.Context())
		s.Close()
		shown, reason, err := c.Ended(t.Context())
		if err != nil || reason != "the job has ended" || !strings.Contains(shown, "The time of this terminal is over.") {
			t.Errorf("%q, %q, %v", shown, reason, err)
		}
	})
	t.Run("not if nobody has it", func(t *testing.T) {
		s := listen(t).Begin(time.Hour)
		s.Open(1, echo)
		s.Wait(t.Context())
	})
}

func TestAnotherProcessGoesOnWithASession(t *testing.T) {
	begin := func(o terminal.Options) *terminal.Server {
		t.Helper()
		o.Log = slog.New(slog.DiscardHandler)
		s, err := terminal.Listen(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	first := listen(t)
	s := first.Begin(time.Minute)
	told := s.Info()
	text, err := json.Marshal(s.Kept())
	if err != nil {
		t.Fatal(err)
	}
	var kept terminal.Kept
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatal(err)
	}
	first.Close()
	known := map[string]terminal.Identity{kept.Server.Address: kept.Server}
	address := strings.TrimPrefix(first.Address(), "https://")

	other := begin(terminal.Options{Listen: "127.0.0.1:0", Known: known})
	if other.Resume(&kept, time.Minute) != nil {
		t.Error("a server at another address goes on with it")
	}
	stranger := begin(terminal.Options{Listen: address})
	if stranger.Resume(&kept, time.Minute) != nil {
		t.Error("a server with another certificate goes on with it")
	}
	stranger.Close()
	damaged := kept.Server
	damaged.Key = []byte("damaged")
	if stranger = begin(terminal.Options{Listen: address, Known: map[string]terminal.Identity{damaged.Address: damaged}}); stranger.Resume(&kept, time.Minute) != nil {
		t.Error("a server without the key of the certificate goes on with it")
	}
	stranger.Close()

	next := begin(terminal.Options{Listen: address, Known: known})
	again := next.Resume(&kept, time.Minute)
	if got := again.Info(); *got != *told {
		t.Errorf("GitLab was told %+v, and now it is %+v", told, got)
	}
	for _, s := range []*terminal.Session{again, next.Begin(time.Minute)} {
		s.Open(1, echo)
		if _, err := open(t, s, gitlabtest.TerminalProtocol).Until(t.Context(), "$ "); err != nil {
			t.Error(err)
		}
	}
}

func TestALevelWithoutTerminalsSaysSo(t *testing.T) {
	s := listen(t).Begin(time.Minute)
	s.Open(1, func(context.Context, *executor.Shell) (int, error) { return -1, errors.ErrUnsupported })
	shown, reason, err := open(t, s, gitlabtest.TerminalProtocol).Ended(t.Context())
	if err != nil || reason != "this job has no terminal" || !strings.Contains(shown, "The isolation level of this job has no terminals.") {
		t.Errorf("%q, %q, %v", shown, reason, err)
	}
}

func TestAConnectionThatAsksForNothingIsClosed(t *testing.T) {
	t.Parallel()
	s := listen(t)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.Address(), "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it shows no secret
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Write([]byte("GET /session/none/exec HTTP/1.1\r\nHost: rung\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 404") { // and it stays open until the server ends it
		t.Errorf("%v\n%s", err, text)
	}
}

func TestWhereGitLabReachesTheServer(t *testing.T) {
	for name, test := range map[string]struct{ listen, advertise, want, wrong string }{
		"another address":       {"127.0.0.1:0", "runner.example.com:8093", "https://runner.example.com:8093", ""},
		"with a scheme":         {"127.0.0.1:0", "https://runner.example.com:8093/", "https://runner.example.com:8093", ""},
		"IPv6":                  {"127.0.0.1:0", "[2001:db8::1]:8093", "https://[2001:db8::1]:8093", ""},
		"every address":         {"0.0.0.0:0", "", "", "set advertise_address"},
		"every address of IPv6": {"[::]:0", "", "", "set advertise_address"},
		"no host":               {":0", "", "", "set advertise_address"},
		"no port":               {"127.0.0.1:0", "runner.example.com", "", "has to be HOST:PORT"},
		"cannot listen":         {"256.0.0.1:0", "", "", "256.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := terminal.Listen(terminal.Options{Listen: test.listen, Advertise: test.advertise, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				if test.wrong == "" || !strings.Contains(err.Error(), test.wrong) {
					t.Error(err)
				}
				return
			}
			defer s.Close()
			if s.Address() != test.want {
				t.Errorf("%s, want %s", s.Address(), test.want)
			}
		})
	}
}

// client is a client of Python's websockets: the certificate is the only one that it trusts, as strictly as OpenSSL does it.
const client = `
import asyncio, json, ssl, sys, websockets
s = json.load(sys.stdin)
async def main():
    context = ssl.create_default_context(cadata=s["certificate"])
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    connect = websockets.connect
    import inspect
    name = "additional_headers" if "additional_headers" in inspect.signature(connect.__init__).parameters else "extra_headers"
    async with connect(s["url"].replace("https://", "wss://") + "/exec", ssl=context, subprotocols=["terminal.gitlab.com"], **{name: {"Authorization": s["authorization"]}}) as ws:
        print("subprotocol", ws.subprotocol)
        seen = b""
        while b"$ " not in seen: seen += await ws.recv()
        await ws.send(b"hello\n")
        while b"echo hello\n" not in seen: seen += await ws.recv()
        await (await ws.ping())
        await ws.send(b"exit\n")
        try:
            while True: await ws.recv()
        except websockets.ConnectionClosed as e:
            print("closed", e.rcvd.code, e.rcvd.reason)
asyncio.run(main())
`

func TestAClientOfAnotherProject(t *testing.T) {
	python := "/usr/bin/python3" // other Pythons than the system's do not see its packages
	if err := exec.Command(python, "-c", "import websockets").Run(); err != nil {
		enginetest.Skip(t, "Python's websockets")
	}
	s := listen(t).Begin(time.Minute)
	s.Open(1, echo)
	info, err := json.Marshal(s.Info())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", client)
	cmd.Stdin = strings.NewReader(string(info))
	out, err := cmd.CombinedOutput()
	if want := "subprotocol terminal.gitlab.com\nclosed 1000 the shell has ended\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}
