//go:build unix

package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/steps/catalog/program"
)

// step is a terminal step that runs.
type step struct {
	t      *testing.T
	socket string
	log    *lines
	ended  chan struct{}
	err    error
	output string // the file of outputs
}

// lines is a log that can be waited for.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// open starts a step and waits until it listens.
func open(t *testing.T, ctx context.Context, inputs string) *step {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("needs /bin/sh")
	}
	s := &step{t: t, log: &lines{more: make(chan struct{}, 1)}, ended: make(chan struct{}), output: filepath.Join(t.TempDir(), "outputs")}
	if err := os.WriteFile(s.output, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	call := &program.Call{
		Inputs: []byte(inputs), WorkDir: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH"), "PS1=$ ", "SECRET=of the job", "TERM=none"},
		Stdout: s.log, Stderr: s.log, OutputFile: s.output,
	}
	go func() {
		defer close(s.ended)
		s.err = Run(ctx, call)
	}()
	for {
		if _, rest, ok := strings.Cut(s.log.String(), "step-runner terminal "); ok && strings.Contains(rest, "\n") {
			s.socket, _, _ = strings.Cut(rest, "\n")
			return s
		}
		select {
		case <-s.log.more:
		case <-s.ended:
			return s
		}
	}
}

// wait waits until the step has ended and returns its output.
func (s *step) wait() string {
	s.t.Helper()
	<-s.ended
	text, err := os.ReadFile(s.output)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

const (
	attachedYes = `{"name":"attached","value":true}`
	attachedNo  = `{"name":"attached","value":false}`
)

func TestAPersonAttaches(t *testing.T) {
	t.Parallel()
	s := open(t, t.Context(), `{"shell":"/bin/sh","socket":"","wait":"1m","limit":"1m"}`)
	if info, err := os.Stat(s.socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Dir(s.socket)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its folder: %v, %v", info.Mode(), err)
	}
	sizes := make(chan process.Size, 1)
	sizes <- process.Size{Columns: 101, Rows: 33}
	var shown bytes.Buffer
	why, err := Attach(t.Context(), s.socket, Person{
		Input: strings.NewReader("stty size; echo \"<$SECRET, $TERM>\"; test -t 0 && echo a ter''minal; exit 3\n"), Output: &shown, Sizes: sizes, Term: "xterm-256color",
	})
	if err != nil || why != "the shell ended" {
		t.Errorf("%q, %v", why, err)
	}
	for _, want := range []string{"33 101", "<of the job, xterm-256color>", "a terminal"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("no %q in what was shown:\n%s", want, shown.String())
		}
	}
	if got := s.wait(); got != attachedYes || s.err != nil {
		t.Errorf("outputs %s, error %v", got, s.err)
	}
	if strings.Contains(s.log.String(), "of the job") {
		t.Errorf("what is shown to the person is in the log:\n%s", s.log.String())
	}
	if _, err := os.Stat(filepath.Dir(s.socket)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket's folder is still there: %v", err)
	}
}

func TestTheTerminalChangesItsSize(t *testing.T) {
	t.Parallel()
	s := open(t, t.Context(), `{"shell":"/bin/sh","socket":"","wait":"1m","limit":"1m"}`)
	sizes := make(chan process.Size)
	go func() {
		sizes <- process.Size{Columns: 80, Rows: 24}
		sizes <- process.Size{Columns: 132, Rows: 43}
	}()
	in, typing := io.Pipe()
	defer typing.Close()
	go func() {
		_, _ = io.WriteString(typing, "until test \"$(stty size)\" = '43 132'; do sleep 0.05; done; echo changed; exit\n")
	}()
	var shown bytes.Buffer
	if _, err := Attach(t.Context(), s.socket, Person{Input: in, Output: &shown, Sizes: sizes}); err != nil {
		t.Error(err)
	}
	s.wait()
}

func TestHowATerminalEnds(t *testing.T) {
	t.Parallel()
	t.Run("nobody comes", func(t *testing.T) {
		t.Parallel()
		s := open(t, t.Context(), `{"shell":"","socket":"","wait":"10ms","limit":"1m"}`)
		if got := s.wait(); got != attachedNo || s.err != nil || !strings.Contains(s.log.String(), "Nobody came within 10ms") {
			t.Errorf("outputs %s, error %v\n%s", got, s.err, s.log)
		}
	})
	t.Run("the limit is over", func(t *testing.T) {
		t.Parallel()
		s := open(t, t.Context(), `{"shell":"/bin/sh","socket":"","wait":"1m","limit":"100ms"}`)
		in, typing := io.Pipe()
		defer typing.Close()
		why, err := Attach(t.Context(), s.socket, Person{Input: in, Output: io.Discard})
		if err != nil || why != errLimit.Error() {
			t.Errorf("%q, %v", why, err)
		}
		if got := s.wait(); got != attachedYes || s.err != nil || !strings.Contains(s.log.String(), "100ms, its limit") {
			t.Errorf("outputs %s, error %v\n%s", got, s.err, s.log)
		}
	})
	t.Run("the person leaves", func(t *testing.T) {
		t.Parallel()
		s := open(t, t.Context(), `{"shell":"/bin/sh","socket":"","wait":"1m","limit":"1m"}`)
		_, err := Attach(t.Context(), s.socket, Person{Input: strings.NewReader("sleep 600\r~."), Output: io.Discard, Escape: true})
		if !errors.Is(err, ErrLeft) {
			t.Error(err)
		}
		if got := s.wait(); got != attachedYes || s.err != nil || !strings.Contains(s.log.String(), "The person left") {
			t.Errorf("outputs %s, error %v\n%s", got, s.err, s.log)
		}
	})
	t.Run("the job is stopped before somebody comes", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		s := open(t, ctx, `{"shell":"/bin/sh","socket":"","wait":"1m","limit":"1m"}`)
		cancel()
		if s.wait(); !errors.Is(s.err, context.Canceled) {
			t.Errorf("error %v", s.err)
		}
	})
	t.Run("the job is stopped while somebody is there", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		s := open(t, ctx, `{"shell":"/bin/sh","socket":"","wait":"1m","limit":"1m"}`)
		in, typing := io.Pipe()
		defer typing.Close()
		why, err := Attach(t.Context(), s.socket, Person{Input: in, Output: writerFunc(func(p []byte) (int, error) {
			cancel()
			return len(p), nil
		})})
		if err != nil || why != "the job was stopped" {
			t.Errorf("%q, %v", why, err)
		}
		if s.wait(); !errors.Is(s.err, context.Canceled) {
			t.Errorf("error %v", s.err)
		}
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestOneAtATime(t *testing.T) {
	t.Parallel()
	s := open(t, t.Context(), `{"shell":"/bin/sh","socket":"","wait":"1m","limit":"1m"}`)
	// Somebody who does not speak the language is nobody.
	stranger, err := net.Dial("unix", s.socket)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(stranger, "GET / HTTP/1.1\r\n\r\n")
	if n, _ := stranger.Read(make([]byte, 1)); n != 0 {
		t.Error("a stranger got an answer")
	}
	stranger.Close()

	in, typing := io.Pipe()
	there := make(chan struct{}, 64)
	ended := make(chan error, 1)
	go func() {
		_, err := Attach(t.Context(), s.socket, Person{Input: in, Output: writerFunc(func(p []byte) (int, error) {
			select {
			case there <- struct{}{}:
			default:
			}
			return len(p), nil
		})})
		ended <- err
	}()
	<-there
	_, err = Attach(t.Context(), s.socket, Person{Input: strings.NewReader(""), Output: io.Discard})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "somebody else is attached") {
		t.Errorf("the second: %v", err)
	}
	typing.Close() // the end of what is typed ends the shell
	if err := <-ended; err != nil {
		t.Errorf("the first: %v", err)
	}
	s.wait()
}

func TestTheSocketsPlace(t *testing.T) {
	t.Parallel()
	short, err := os.MkdirTemp("", "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	inputs := func(path string) string {
		return `{"shell":"","socket":"` + path + `","wait":"10ms","limit":"1m"}`
	}
	t.Run("is where it is asked for", func(t *testing.T) {
		path := filepath.Join(short, "in", "here.sock")
		s := open(t, t.Context(), strings.Replace(inputs(path), "10ms", "1m", 1))
		if s.socket != path {
			t.Errorf("it is %s", s.socket)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
		other := open(t, t.Context(), inputs(path))
		if other.wait(); other.err == nil || !strings.Contains(other.err.Error(), "is in use by another terminal") {
			t.Errorf("another at the same place: %v", other.err)
		}
		if _, err := Attach(t.Context(), path, Person{Input: strings.NewReader("exit\n"), Output: io.Discard}); err != nil {
			t.Error(err)
		}
		s.wait()
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it is still there: %v", err)
		}
	})
	t.Run("may hold one that nobody listens on", func(t *testing.T) {
		path := filepath.Join(short, "left.sock")
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
		s := open(t, t.Context(), inputs(path))
		if s.wait(); s.err != nil {
			t.Error(s.err)
		}
	})
	t.Run("may hold nothing else", func(t *testing.T) {
		path := filepath.Join(short, "file")
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, t.Context(), inputs(path))
		if s.wait(); s.err == nil || !strings.Contains(s.err.Error(), "is no socket") {
			t.Error(s.err)
		}
		if text, _ := os.ReadFile(path); string(text) != "mine" {
			t.Error("it was overwritten")
		}
	})
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ inputs, want string }{
		"a wait that is no time":  {`{"shell":"","socket":"","wait":"soon","limit":"1m"}`, `wait: "soon" is no time`},
		"a limit of nothing":      {`{"shell":"","socket":"","wait":"1m","limit":"0s"}`, `limit: "0s" is no time`},
		"an input of another one": {`{"color":"red"}`, "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.Context(), test.inputs)
			if s.wait(); s.err == nil || !strings.Contains(s.err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", s.err, test.want)
			}
		})
	}
	t.Run("a shell that is not there", func(t *testing.T) {
		t.Parallel()
		s := open(t, t.Context(), `{"shell":"no-such-shell","socket":"","wait":"1m","limit":"1m"}`)
		why, err := Attach(t.Context(), s.socket, Person{Input: strings.NewReader(""), Output: io.Discard})
		if err != nil || !strings.Contains(why, "no-such-shell") {
			t.Errorf("%q, %v", why, err)
		}
		if s.wait(); !errors.Is(s.err, process.ErrNotFound) {
			t.Errorf("error %v", s.err)
		}
	})
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		typed []string
		want  string
		leave bool
	}{
		{"plain text", []string{"echo ~. ~\r"}, "echo ~. ~\r", false},
		{"at the start", []string{"~."}, "", true},
		{"after a line", []string{"ls\r~.rest"}, "ls\r", true},
		{"in two pieces", []string{"ls\r~", "."}, "ls\r", true},
		{"two tildes are one", []string{"~~.\r"}, "~.\r", false},
		{"a home folder", []string{"\r~/x\r"}, "\r~/x\r", false},
		{"a tilde and a new line", []string{"~\r~."}, "~\r", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := escape{start: true}
			var got []byte
			leave := false
			for _, part := range test.typed {
				var data []byte
				data, leave = e.filter([]byte(part))
				got = append(got, data...)
			}
			if string(got) != test.want || leave != test.leave {
				t.Errorf("%q, %v", got, leave)
			}
		})
	}
}

// FuzzHello gives the step what it does not expect: it must not panic, and not take much memory.
func FuzzHello(f *testing.F) {
	f.Add([]byte("h\x00\x00\x00\x0d{\"version\":1}"))
	f.Add([]byte("h\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, err := receiveHello(bytes.NewReader(data)); err == nil && (h.Version != version || !plainTerm(h.Term)) {
			t.Errorf("%+v", h)
		}
	})
}

func TestAStepThatDoesNotWait(t *testing.T) {
	t.Parallel()
	started := time.Now()
	if _, err := Attach(t.Context(), filepath.Join(t.TempDir(), "socket"), Person{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after %v: %v", time.Since(started), err)
	}
}
