// Package hosttest is the suite that every host passes, and a real SSH server for tests.
//
// The tests of a host call Main from their TestMain, so that the test program is also the program for files that hosts look for.
package hosttest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/host/remotefiles"
)

// Main runs the tests, or is the program for the files of a host.
func Main(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "host" {
		os.Exit(remotefiles.Serve(context.Background(), local.Files{}, os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// Run holds the host that open makes against the contract. The host is on this machine: the suite looks at its files directly.
func Run(t *testing.T, open func(t *testing.T) host.Host) {
	h := open(t)
	t.Run("Exec", func(t *testing.T) { testExec(t, h) })
	t.Run("Stop", func(t *testing.T) { testStop(t, h) })
	t.Run("Terminal", func(t *testing.T) { testTerminal(t, h) })
	t.Run("Dial", func(t *testing.T) { testDial(t, h) })
	t.Run("Put", func(t *testing.T) { testPut(t, h) })
	t.Run("Files", func(t *testing.T) { testFiles(t, h) })
	t.Run("the host is not lost", func(t *testing.T) {
		select {
		case <-h.Done():
			t.Error(h.Err())
		default:
		}
		if h.Err() != nil {
			t.Error(h.Err())
		}
	})
}

// parts are those of the suite that stand alone.
var parts = map[string]func(*testing.T, host.Host){
	"Exec": testExec, "Stop": testStop, "Terminal": testTerminal, "Dial": testDial, "Put": testPut, "Files": testFiles,
}

// RunParts holds a host against parts of the contract: one that cannot do all of it.
func RunParts(t *testing.T, h host.Host, names ...string) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) { parts[name](t, h) })
	}
}

// result is how a command ended.
type result struct {
	code           int
	err            error
	stdout, stderr string
}

// Sh runs shell text on a host and returns its output without the last line end; it must succeed.
func Sh(t testing.TB, h host.Host, text string, args ...string) string {
	t.Helper()
	r := run(t, h, &host.Command{Args: append([]string{"sh", "-c", text, "sh"}, args...)})
	if r.err != nil || r.code != 0 {
		t.Fatalf("%s: exit code %d, %v, %s", text, r.code, r.err, r.stderr)
	}
	return strings.TrimSuffix(r.stdout, "\n")
}

// run runs a command to its end; what it writes is collected unless the command has writers of its own.
func run(t testing.TB, h host.Host, c *host.Command) result {
	t.Helper()
	var out, errs bytes.Buffer
	if c.Stdout == nil {
		c.Stdout = &out
	}
	if c.Stderr == nil {
		c.Stderr = &errs
	}
	p, err := h.Exec(t.Context(), c)
	if err != nil {
		return result{-1, err, "", ""}
	}
	code, err := p.Wait()
	return result{code, err, out.String(), errs.String()}
}

// awaitGone waits until a process of the host has ended; one that nobody has collected yet has.
func awaitGone(t testing.TB, h host.Host, pid string) {
	t.Helper()
	Sh(t, h, `while kill -0 "$1" 2>/dev/null; do case $(cut -d" " -f3 "/proc/$1/stat" 2>/dev/null) in Z) exit 0;; esac; sleep 0.02; done`, pid)
}

// lines hands on what is written, a line at a time.
type lines struct {
	part []byte
	out  chan string
}

func newLines() *lines { return &lines{out: make(chan string, 1000)} }

func (l *lines) Write(p []byte) (int, error) {
	l.part = append(l.part, p...)
	for {
		i := bytes.IndexByte(l.part, '\n')
		if i < 0 {
			return len(p), nil
		}
		l.out <- strings.TrimRight(string(l.part[:i]), "\r")
		l.part = l.part[i+1:]
	}
}

// next returns the next line, unless the process ends first.
func (l *lines) next(t testing.TB, p host.Process) string {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := p.Wait()
		ended <- err
	}()
	select {
	case line := <-l.out:
		return line
	case err := <-ended:
		select {
		case line := <-l.out:
			return line
		default:
			t.Fatalf("the command has ended (%v) without another line", err)
		}
	}
	return ""
}

var errStop = errors.New("stopped by the test")
