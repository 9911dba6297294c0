package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service/client"
)

// server is a step-runner that serves, as a process.
type server struct {
	cmd    *exec.Cmd
	stderr *bufio.Reader
}

// startServer starts step-runner with the arguments and returns when it listens. dir is its folder for temporary files.
func startServer(t *testing.T, bin, dir string, args ...string) *server {
	t.Helper()
	s := &server{cmd: exec.Command(filepath.Join(bin, "step-runner"), args...)}
	s.cmd.Dir = dir
	s.cmd.Env = append(os.Environ(), "TMPDIR="+dir, "STEPS=")
	pipe, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stderr = bufio.NewReader(pipe)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	return s
}

// say returns the first group of the first line on standard error that matches.
func (s *server) say(t *testing.T, pattern string) string {
	t.Helper()
	want := regexp.MustCompile(pattern)
	for {
		line, err := s.stderr.ReadString('\n')
		if m := want.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			return m[1]
		}
		if err != nil {
			t.Fatalf("the server never says %s: %v", pattern, err)
		}
	}
}

// shortDir is a folder whose path leaves room for the name of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	dir, err := os.MkdirTemp("", "e2-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func dialClient(t *testing.T, target string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Disconnect() })
	return c
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

const ready = `^step-runner is listening on (?:socket )?(\S+)$`

func TestService(t *testing.T) {
	t.Parallel()
	bin := build(t)
	t.Run("a client reaches a server through the standard input and output of a proxy", func(t *testing.T) {
		t.Parallel()
		dir := shortDir(t)
		s := startServer(t, bin, dir, "serve", dir)
		socket := s.say(t, ready)
		exits := make(chan error, 1)
		c := dialClient(t, "proxy", client.WithDialer(func(context.Context) (net.Conn, error) {
			proxy := exec.Command(filepath.Join(bin, "step-runner"), "proxy", "--socket", socket)
			proxy.Stderr = os.Stderr // why it has failed
			in, err := proxy.StdinPipe()
			if err != nil {
				return nil, err
			}
			out, err := proxy.StdoutPipe()
			if err != nil {
				return nil, err
			}
			if err := proxy.Start(); err != nil {
				return nil, err
			}
			go func() { exits <- proxy.Wait() }()
			return client.Stdio(out, in), nil
		}))
		var log strings.Builder
		if _, err := c.Execute(soon(t), client.Request{ID: "1", WorkDir: dir, Text: "- script: printf 'a\\n\\nb'"}, &log); err != nil || log.String() != "a\n\nb" {
			t.Errorf("got %q, %v", log.String(), err)
		}
		if err := c.Run(soon(t), client.Request{ID: "2", WorkDir: dir, Text: "- script: trap 'echo stopped' TERM; echo started; sleep 600 & wait"}); err != nil {
			t.Fatal(err)
		}
		log.Reset()
		seen := writerFunc(func(p []byte) (int, error) {
			if strings.HasPrefix(log.String()+string(p), "started\n") && !strings.Contains(log.String(), "started") {
				_ = s.cmd.Process.Signal(syscall.SIGTERM) // the server ends, but not before its run and its followers
			}
			return log.Write(p)
		})
		if _, err := c.FollowLogs(soon(t), "2", seen, client.LogOptions{}); err != nil || log.String() != "started\nstopped\n" {
			t.Errorf("while the server ends: %q, %v", log.String(), err)
		}
		if st, err := c.Status(soon(t), "2"); err != nil || st.State != event.Cancelled {
			t.Errorf("the status is %+v, %v", st, err)
		}
		if err := c.Close(soon(t), "2"); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, s.stderr)
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("the server ends with %v", err)
		}
		if err := <-exits; err != nil {
			t.Errorf("the proxy ends with %v", err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
	})
	t.Run("a second signal ends a server at once", func(t *testing.T) {
		t.Parallel()
		dir := shortDir(t)
		s := startServer(t, bin, dir, "serve", dir)
		c := dialClient(t, "unix:"+s.say(t, ready))
		if err := c.Run(soon(t), client.Request{ID: "1", WorkDir: dir, Grace: 10 * time.Minute, Text: "- script: trap 'echo asked' TERM; echo started; while :; do sleep 0.05; done"}); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		_, err := c.FollowLogs(soon(t), "1", writerFunc(func(p []byte) (int, error) {
			before := log.String()
			defer log.Write(p)
			for _, word := range []string{"started", "asked"} { // not when the shell tells of its sleep that was ended
				if !strings.Contains(before, word) && strings.Contains(before+string(p), word) {
					_ = s.cmd.Process.Signal(syscall.SIGTERM)
				}
			}
			return len(p), nil
		}), client.LogOptions{})
		_, _ = io.Copy(io.Discard, s.stderr)
		if werr := s.cmd.Wait(); werr != nil || !strings.Contains(log.String(), "asked") {
			t.Errorf("the server ends with %v, the log with %q and %v", werr, log.String(), err)
		}
	})
	t.Run("a job is followed, and cancelled, while ci runs it", func(t *testing.T) {
		t.Parallel()
		dir := shortDir(t)
		steps := filepath.Join(dir, "steps.yml")
		if err := os.WriteFile(steps, []byte("- script: trap 'exit 1' TERM; echo started; while :; do sleep 0.05; done\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		s := startServer(t, bin, dir, "ci", "--port", "0", steps)
		file := s.say(t, `^step-runner: clients present the token in (\S+)$`)
		token, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		address := s.say(t, ready)
		if _, err := dialClient(t, address).List(soon(t)); !errors.Is(err, client.ErrUnauthenticated) {
			t.Errorf("without the token: %v", err)
		}
		c := dialClient(t, address, client.WithToken(strings.TrimSpace(string(token))))
		var log bytes.Buffer
		_, err = c.FollowLogs(soon(t), "ci", writerFunc(func(p []byte) (int, error) {
			if log.Len() == 0 { // once: with the last piece ci may have ended
				if err := c.Cancel(soon(t), "ci", event.Stop{Reason: "seen enough"}, false); err != nil {
					t.Error(err)
				}
			}
			return log.Write(p)
		}), client.LogOptions{})
		if err != nil || !strings.HasPrefix(log.String(), "started\n") {
			t.Errorf("the log is %q, %v", log.String(), err)
		}
		_, _ = io.Copy(io.Discard, s.stderr)
		_ = s.cmd.Wait()
		if code := s.cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("ci exits with %d", code)
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("the token is left")
		}
	})
	t.Run("the Python client of the examples runs steps", func(t *testing.T) {
		t.Parallel()
		python := pythonWithGRPC(t)
		dir := shortDir(t)
		s := startServer(t, bin, dir, "serve", dir)
		target := "unix:" + s.say(t, ready)
		run := func(steps string) (string, int) {
			cmd := exec.Command(python, filepath.Join("examples", "python-client", "client.py"), target, steps)
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			return string(out), cmd.ProcessState.ExitCode()
		}
		out, code := run(filepath.Join("examples", "python-client", "steps.yml"))
		if want := "hello from the other side of a socket\nand hello, world\n"; out != want || code != 0 {
			t.Errorf("got %q, exit code %d", out, code)
		}
		wrong := filepath.Join(dir, "wrong.yml")
		if err := os.WriteFile(wrong, []byte("- name: a\n  scirpt: echo\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, code := run(wrong); code != 3 || !strings.Contains(out, "wrong.yml:2:3: unknown key \"scirpt\"\n    hint: did you mean \"script\"?") {
			t.Errorf("of wrong steps it says %q, exit code %d", out, code)
		}
		if err := os.WriteFile(wrong, []byte("- {name: a, script: exit 7}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, code := run(wrong); code != 1 || !strings.Contains(out, "exit status 7") {
			t.Errorf("of steps that fail it says %q, exit code %d", out, code)
		}
	})
}

// pythonWithGRPC returns a Python that has what the example needs. Debian's own is tried first: packages are installed for that.
func pythonWithGRPC(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("protoc"); err != nil {
		t.Skip("needs protoc")
	}
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(name, "-c", "import grpc, google.protobuf").Run() == nil {
			return name
		}
	}
	t.Skip("needs python3 with grpcio and protobuf")
	return ""
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
