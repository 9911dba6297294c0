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

// attach attaches, types a text, and returns all that is shown until the end.
func attach(t *testing.T, s *step, typed string, p Person) (string, End) {
	t.Helper()
	c, err := Dial(t.Context(), s.socket, p)
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	end, err := c.Carry(t.Context(), Streams{In: strings.NewReader(typed), Out: &shown})
	if err != nil {
		t.Error(err)
	}
	return shown.String(), end
}

// person is somebody who is attached, and waits for what is shown.
type person struct {
	t      *testing.T
	typing *io.PipeWriter
	shown  *lines
	ended  chan struct{}
	end    End
	err    error
}

// come attaches as one who types, once nobody else is attached.
func come(t *testing.T, s *step) *person {
	t.Helper()
	c, err := Dial(t.Context(), s.socket, Person{})
	for refused := (*RefusedError)(nil); errors.As(err, &refused); { // the step learns a moment later that somebody has detached
		c, err = Dial(t.Context(), s.socket, Person{})
	}
	if err != nil {
		t.Fatal(err)
	}
	in, typing := io.Pipe()
	p := &person{t: t, typing: typing, shown: &lines{more: make(chan struct{}, 1)}, ended: make(chan struct{})}
	t.Cleanup(func() { typing.Close() })
	go func() {
		defer close(p.ended)
		p.end, p.err = c.Carry(t.Context(), Streams{In: in, Out: p.shown, Interactive: true})
	}()
	return p
}

func (p *person) types(text string) { _, _ = io.WriteString(p.typing, text) }

// sees waits until a text is shown.
func (p *person) sees(text string) {
	p.t.Helper()
	for !strings.Contains(p.shown.String(), text) {
		select {
		case <-p.shown.more:
		case <-p.ended:
			if !strings.Contains(p.shown.String(), text) {
				p.t.Fatalf("%q was not shown: %q, %+v %v", text, p.shown, p.end, p.err)
			}
		}
	}
}

// leaves waits until the person is not attached any more.
func (p *person) leaves() End {
	p.t.Helper()
	<-p.ended
	if p.err != nil {
		p.t.Error(p.err)
	}
	return p.end
}

const longEnough = `{"shell":"/bin/sh","socket":"","wait":"1m","limit":"1m"}`

func TestAPersonAttaches(t *testing.T) {
	t.Parallel()
	s := open(t, t.Context(), longEnough)
	if info, err := os.Stat(s.socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Dir(s.socket)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its folder: %v, %v", info.Mode(), err)
	}
	shown, end := attach(t, s, "until test \"$(stty size)\" = '33 101'; do sleep 0.05; done; echo \"<$SECRET, $TERM>\"; test -t 0 && echo a ter''minal; exit 3\n",
		Person{Size: process.Size{Columns: 101, Rows: 33}, Kind: "xterm-256color"})
	if end != (End{ExitCode: 3, Reason: "the shell ended with exit code 3"}) {
		t.Errorf("%+v", end)
	}
	for _, want := range []string{"<of the job, xterm-256color>", "a terminal"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in what was shown:\n%s", want, shown)
		}
	}
	if got := s.wait(); got != attachedYes || s.err != nil {
		t.Errorf("outputs %s, error %v", got, s.err)
	}
	if strings.Contains(s.log.String(), "of the job,") || !strings.Contains(s.log.String(), "The terminal is closed: the shell ended with exit code 3.") {
		t.Errorf("the log is:\n%s", s.log)
	}
	if _, err := os.Stat(filepath.Dir(s.socket)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket's folder is still there: %v", err)
	}
}

func TestTheEndOfWhatIsPipedInEndsTheShell(t *testing.T) {
	t.Parallel()
	s := open(t, t.Context(), longEnough)
	shown, end := attach(t, s, "echo o''ne\n", Person{})
	if end.ExitCode != 0 || end.Detached || !strings.Contains(shown, "one\r\n") {
		t.Errorf("%+v\n%s", end, shown)
	}
	s.wait()
}

func TestTheTerminalChangesItsSize(t *testing.T) {
	t.Parallel()
	s := open(t, t.Context(), longEnough)
	c, err := Dial(t.Context(), s.socket, Person{Size: process.Size{Columns: 80, Rows: 24}})
	if err != nil {
		t.Fatal(err)
	}
	sizes := make(chan process.Size, 2)
	sizes <- process.Size{Columns: 90, Rows: 25}
	sizes <- process.Size{Columns: 132, Rows: 43}
	in := strings.NewReader("until test \"$(stty size)\" = '43 132'; do sleep 0.05; done; exit\n")
	if end, err := c.Carry(t.Context(), Streams{In: in, Out: io.Discard, Sizes: sizes}); err != nil || end.ExitCode != 0 {
		t.Errorf("%+v %v", end, err)
	}
	s.wait()
}

func TestAPersonDetachesAndAttachesAgain(t *testing.T) {
	t.Parallel()
	s := open(t, t.Context(), longEnough)
	first := come(t, s)
	first.types("kept=yes; echo re''ady\r")
	first.sees("ready\r\n")
	first.types("~.")
	if end := first.leaves(); !end.Detached {
		t.Errorf("%+v", end)
	}
	second := come(t, s)
	second.sees("ready\r\n") // what was shown before
	second.types("echo \"[$kept]\"; exit 4\r")
	second.sees("[yes]")
	if end := second.leaves(); end.Detached || end.ExitCode != 4 {
		t.Errorf("%+v", end)
	}
	if got := s.wait(); got != attachedYes || s.err != nil {
		t.Errorf("outputs %s, error %v", got, s.err)
	}
}

func TestHowATerminalEnds(t *testing.T) {
	t.Parallel()
	t.Run("nobody comes", func(t *testing.T) {
		t.Parallel()
		s := open(t, t.Context(), `{"shell":"","socket":"","wait":"10ms","limit":"1m"}`)
		if got := s.wait(); got != attachedNo || s.err != nil || !strings.Contains(s.log.String(), "Nobody attached.") {
			t.Errorf("outputs %s, error %v\n%s", got, s.err, s.log)
		}
	})
	t.Run("nobody comes back", func(t *testing.T) {
		t.Parallel()
		s := open(t, t.Context(), `{"shell":"/bin/sh","socket":"","wait":"3s","limit":"1m"}`)
		p := come(t, s)
		p.types("~.")
		p.leaves()
		if got := s.wait(); got != attachedYes || s.err != nil || !strings.Contains(s.log.String(), "nobody was attached for 3s") {
			t.Errorf("outputs %s, error %v\n%s", got, s.err, s.log)
		}
	})
	t.Run("the limit is over", func(t *testing.T) {
		t.Parallel()
		s := open(t, t.Context(), `{"shell":"/bin/sh","socket":"","wait":"1m","limit":"100ms"}`)
		if end := come(t, s).leaves(); end != (End{ExitCode: -1, Reason: "its limit of 100ms is over"}) {
			t.Errorf("%+v", end)
		}
		if got := s.wait(); got != attachedYes || s.err != nil || !strings.Contains(s.log.String(), "The terminal is closed: its limit of 100ms is over.") {
			t.Errorf("outputs %s, error %v\n%s", got, s.err, s.log)
		}
	})
	t.Run("a signal ends the shell", func(t *testing.T) {
		t.Parallel()
		s := open(t, t.Context(), longEnough)
		if _, end := attach(t, s, "kill -KILL $$\n", Person{}); end != (End{ExitCode: -1, Reason: "the shell was killed by SIGKILL"}) {
			t.Errorf("%+v", end)
		}
		s.wait()
	})
	t.Run("the job is stopped before somebody comes", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		s := open(t, ctx, longEnough)
		cancel()
		if s.wait(); !errors.Is(s.err, context.Canceled) {
			t.Errorf("error %v", s.err)
		}
	})
	t.Run("the job is stopped while somebody is there", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		s := open(t, ctx, longEnough)
		p := come(t, s)
		p.sees("$ ")
		cancel()
		if end := p.leaves(); end.Reason != "the job is being stopped" || end.Detached {
			t.Errorf("%+v", end)
		}
		if s.wait(); !errors.Is(s.err, context.Canceled) {
			t.Errorf("error %v", s.err)
		}
	})
	t.Run("the shell does not start", func(t *testing.T) {
		t.Parallel()
		s := open(t, t.Context(), `{"shell":"no-such-shell","socket":"","wait":"1m","limit":"1m"}`)
		if end := come(t, s).leaves(); !strings.Contains(end.Reason, "no-such-shell") {
			t.Errorf("%+v", end)
		}
		if s.wait(); !errors.Is(s.err, process.ErrNotFound) {
			t.Errorf("error %v", s.err)
		}
	})
}

func TestOneAtATime(t *testing.T) {
	t.Parallel()
	s := open(t, t.Context(), longEnough)
	// One who does not speak the language is nobody.
	stranger, err := net.Dial("unix", s.socket)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(stranger, "GET / HTTP/1.1\r\n\r\n")
	if n, _ := stranger.Read(make([]byte, 1)); n != 0 {
		t.Error("a stranger got an answer")
	}
	stranger.Close()
	silent, err := net.Dial("unix", s.socket) // and one who says nothing holds nobody up
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	first := come(t, s)
	_, err = Dial(t.Context(), s.socket, Person{})
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Reason != "somebody else is attached" {
		t.Errorf("the second: %v", err)
	}
	first.types("exit\r")
	first.leaves()
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
		if other.wait(); other.err == nil || !strings.Contains(other.err.Error(), "somebody listens on") {
			t.Errorf("another at the same place: %v", other.err)
		}
		attach(t, s, "exit\n", Person{})
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
		if s.wait(); s.err == nil || !strings.Contains(s.err.Error(), "is not a socket") {
			t.Error(s.err)
		}
		if text, _ := os.ReadFile(path); string(text) != "mine" {
			t.Error("it was overwritten")
		}
	})
}

func TestInputsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ inputs, want string }{
		"a wait that is not a time": {`{"shell":"","socket":"","wait":"soon","limit":"1m"}`, `wait is "soon"`},
		"a limit of nothing":        {`{"shell":"","socket":"","wait":"1m","limit":"0s"}`, `limit is "0s"`},
		"an input of another one":   {`{"color":"red"}`, "unknown field"},
		"a path that is too long":   {`{"shell":"","socket":"` + strings.Repeat("x", 120) + `/s","wait":"1m","limit":"1m"}`, "at most 103 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.Context(), test.inputs)
			if s.wait(); s.err == nil || !strings.Contains(s.err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", s.err, test.want)
			}
		})
	}
}

func TestWhatIsShownIsKeptToAMeasure(t *testing.T) {
	t.Parallel()
	h := &host{}
	line := strings.Repeat("x", 99) + "\n"
	for range 5000 {
		_, _ = h.Write([]byte(line))
	}
	if len(h.kept) > maxKept || len(h.kept) < maxKept/4 || !strings.HasPrefix(string(h.kept), line) {
		t.Errorf("%d bytes are kept", len(h.kept))
	}
}

func TestNothingWaitsThere(t *testing.T) {
	t.Parallel()
	if _, err := Dial(t.Context(), filepath.Join(t.TempDir(), "socket"), Person{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		typed  []string
		want   string
		detach bool
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
			var e escape
			var got []byte
			detach := false
			for _, part := range test.typed {
				var data []byte
				data, detach = e.filter([]byte(part))
				got = append(got, data...)
			}
			if string(got) != test.want || detach != test.detach {
				t.Errorf("%q, %v", got, detach)
			}
		})
	}
}

// FuzzFrames gives both sides what they do not expect: it must not panic, and not take much memory.
func FuzzFrames(f *testing.F) {
	f.Add(append([]byte("h\x00\x00\x00\x0a\x01\x00\x50\x00\x18"), "xterm"...))
	f.Add([]byte("h\xff\xff\xff\xff"))
	f.Add([]byte("e\x00\x00\x00\x05\x00\x00\x00\x03x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, payload, err := readFrame(bytes.NewReader(data))
		if err != nil {
			return
		}
		if p, err := decodePerson(payload); err == nil && (len(p.Kind) > maxKind || strings.ContainsAny(p.Kind, "/ \x00\n")) {
			t.Errorf("%+v", p)
		}
		if e, ok := decodeEnded(payload); ok && !bytes.Equal(e.encode(), payload) {
			t.Errorf("%+v is not %q", e, payload)
		}
		if size, ok := decodeSize(payload); ok && !bytes.Equal(appendSize(nil, size), payload) {
			t.Errorf("%+v is not %q", size, payload)
		}
	})
}
