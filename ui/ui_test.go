package ui

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

func TestColorWanted(t *testing.T) {
	tests := []struct {
		about, flag string
		env         map[string]string
		tty, want   bool
	}{
		{"a terminal has colour", "", nil, true, true},
		{"a file has none", "auto", nil, false, false},
		{"NO_COLOR=1 turns it off", "", map[string]string{"NO_COLOR": "1"}, true, false},
		{"NO_COLOR=yes turns it off", "", map[string]string{"NO_COLOR": "yes"}, true, false},
		{"NO_COLOR=0 turns it off", "", map[string]string{"NO_COLOR": "0"}, true, false},
		{"an empty NO_COLOR does nothing", "", map[string]string{"NO_COLOR": ""}, true, true},
		{"NO_COLOR is stronger than CLICOLOR_FORCE", "", map[string]string{"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, true, false},
		{"CLICOLOR_FORCE turns it on", "", map[string]string{"CLICOLOR_FORCE": "1"}, false, true},
		{"CLICOLOR_FORCE=0 does nothing", "", map[string]string{"CLICOLOR_FORCE": "0"}, false, false},
		{"FORCE_COLOR turns it on", "", map[string]string{"FORCE_COLOR": "true"}, false, true},
		{"FORCE_COLOR=false does nothing", "", map[string]string{"FORCE_COLOR": "false"}, false, false},
		{"FORCE_COLOR is stronger than TERM=dumb", "", map[string]string{"FORCE_COLOR": "1", "TERM": "dumb"}, true, true},
		{"TERM=dumb turns it off", "", map[string]string{"TERM": "dumb"}, true, false},
		{"the flag is stronger than NO_COLOR", "always", map[string]string{"NO_COLOR": "1"}, false, true},
		{"the flag is stronger than FORCE_COLOR", "never", map[string]string{"FORCE_COLOR": "1"}, true, false},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			env := func(name string) string { return test.env[name] }
			if got := ColorWanted(env, test.flag, test.tty); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for name, want := range map[string]Mode{"": ModeAuto, "auto": ModeAuto, "tty": ModeTTY, "plain": ModePlain, "quiet": ModeQuiet, "json": ModeJSON} {
		if got, err := ParseMode(name); got != want || err != nil {
			t.Errorf("ParseMode(%q) = %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]Show{"": ShowAll, "all": ShowAll, "fail": ShowFail, "none": ShowNone} {
		if got, err := ParseShow(name); got != want || err != nil {
			t.Errorf("ParseShow(%q) = %q, %v", name, got, err)
		}
	}
	if _, err := ParseMode("TTY"); err == nil {
		t.Error("ParseMode takes TTY")
	}
	if _, err := ParseShow("some"); err == nil {
		t.Error("ParseShow takes some")
	}
}

func TestAutoIsTTYOnATerminalOnly(t *testing.T) {
	if got := (Options{StderrTTY: true}).withDefaults().Mode; got != ModeTTY {
		t.Errorf("on a terminal: %s", got)
	}
	if got := (Options{Mode: ModeAuto, StdoutTTY: true}).withDefaults().Mode; got != ModePlain {
		t.Errorf("with stderr in a file: %s", got)
	}
}

func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0ms", 12 * time.Millisecond: "12ms", 100 * time.Millisecond: "0.1s", 1249 * time.Millisecond: "1.2s",
		59949 * time.Millisecond: "59.9s", 59951 * time.Millisecond: "1m", 125 * time.Second: "2m5s",
		time.Hour: "1h", 62 * time.Minute: "1h2m", -time.Second: "0ms",
	} {
		if got := exact(d); got != want {
			t.Errorf("exact(%v) = %q, want %q", d, got, want)
		}
	}
	var got []time.Duration
	for n := range 7 {
		got = append(got, reminder(n))
	}
	if want := "[30s 1m0s 2m0s 5m0s 10m0s 15m0s 20m0s]"; fmt.Sprint(got) != want {
		t.Errorf("reminders at %v, want %s", got, want)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var tl tail
	var all strings.Builder
	for i := range 20_000 {
		line := fmt.Sprintf("line %d\n", i)
		all.WriteString(line)
		tl.write([]byte(line))
		if len(tl.buf) > tailBytes {
			t.Fatalf("%d bytes are kept, want %d at most", len(tl.buf), tailBytes)
		}
	}
	if len(tl.buf) < tailBytes/2 || !strings.HasSuffix(all.String(), string(tl.buf)) {
		t.Errorf("%d bytes are kept that are not the end of the stream", len(tl.buf))
	}
	lines, whole := tl.last(3)
	if got := strings.Join(lines, ","); got != "line 19997,line 19998,line 19999" || whole {
		t.Errorf("last(3) = %s, %v", got, whole)
	}
	tl.write(bytes.Repeat([]byte("x"), 1<<20))
	if lines, whole := tl.last(3); len(lines) != 1 || whole || len(lines[0]) > 2*tailLineBytes {
		t.Errorf("of a huge line %d lines are left, whole %v", len(lines), whole)
	}
	short := tail{buf: []byte("a\r\nb\rc\n\nd")}
	if lines, whole := short.last(10); strings.Join(lines, ",") != "a,c,,d" || !whole {
		t.Errorf("of a short log: %q, %v", lines, whole)
	}
}

func TestPartialLinesAreBounded(t *testing.T) {
	got := play(t, Options{}, func(s *script) {
		s.startKind("1", "both", event.KindParallel)
		s.start("1.1", "a")
		for range 100 {
			s.out("1.1", strings.Repeat("x", 10_000))
		}
		if r := s.view.(*reporter); cap(r.run.byPath["1.1"].partial[0]) > 4*partialBytes {
			t.Error("an endless line is kept whole")
		}
	})
	if n := strings.Count(got.out.String(), "x"); n != 1_000_000 {
		t.Errorf("%d bytes of 1000000 came out", n)
	}
}

func TestNothingIsLeftOfFinishedSteps(t *testing.T) {
	c := newClock()
	r := newReporter(Options{Mode: ModePlain, Now: c.Now}.withDefaults())
	s := &script{view: r, clock: c}
	s.startKind("1", "all", event.KindSteps)
	for i := range 10_000 {
		path := fmt.Sprintf("1.%d", i+1)
		s.start(path, "step")
		s.out(path, "output\n")
		s.exit(path, 1)
	}
	if len(r.run.running) != 1 || len(r.run.byPath) != 1 || len(r.run.failures) != maxFailures || r.run.lost != 10_000-maxFailures {
		t.Errorf("kept: %d running, %d by path, %d failures", len(r.run.running), len(r.run.byPath), len(r.run.failures))
	}
}

func TestNewCountsLeavesRight(t *testing.T) {
	r := &run{byPath: map[string]*step{}}
	start := func(path string) *step { return r.start(path, event.StepStarted{Name: "x"}, time.Time{}) }
	a := start("1")
	start("1.1")
	start("1.2")
	if r.leaves != 2 {
		t.Errorf("two steps in a list: %d leaves", r.leaves)
	}
	r.remove(r.byPath["1.1"])
	start("1.2.1")
	if r.leaves != 1 {
		t.Errorf("a step in a step in a list: %d leaves", r.leaves)
	}
	r.remove(a) // although steps in it still run
	if r.leaves != 0 || len(r.running) != 0 || len(r.byPath) != 0 {
		t.Errorf("after the list: %d leaves, %d running", r.leaves, len(r.running))
	}
}

func TestBothStreamsInOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := newClock()
	s := &script{clock: c, view: newReporter(Options{Mode: ModePlain, Stdout: f, Stderr: f, Now: c.Now}.withDefaults())}
	s.start("1", "a")
	s.out("1", "no newline")
	s.ok("1")
	s.view.Close()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "▸ a\nno newline\n✓ a  1.2s\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

type brokenWriter struct{ n int }

var errBroken = errors.New("the disk is full")

func (w *brokenWriter) Write([]byte) (int, error) { w.n++; return 0, errBroken }

func TestCloseReturnsTheFirstError(t *testing.T) {
	for _, mode := range []Mode{ModePlain, ModeTTY, ModeQuiet, ModeJSON} {
		w := &brokenWriter{}
		s := &script{clock: newClock(), view: New(Options{Mode: mode, Stdout: w, Stderr: w})}
		failingRun(s)
		failingRun(s)
		for range 2 {
			if err := s.view.Close(); !errors.Is(err, errBroken) {
				t.Errorf("%s: Close returns %v", mode, err)
			}
		}
		if w.n > 2 {
			t.Errorf("%s: written %d times after the error", mode, w.n)
		}
	}
}

func TestViewsWithTheirClock(t *testing.T) {
	for _, mode := range []Mode{ModePlain, ModeTTY, ModeQuiet, ModeJSON} {
		t.Run(string(mode), func(t *testing.T) {
			var mu sync.Mutex
			now := newClock().now
			fast := func() time.Time { // time flies, so that the clock has something to do
				mu.Lock()
				defer mu.Unlock()
				now = now.Add(10 * time.Second)
				return now
			}
			sc := newScreen(60, 10)
			v := New(Options{Mode: mode, Stdout: sc, Stderr: sc, StdoutTTY: true, StderrTTY: true, Now: fast})
			if r, ok := v.(*reporter); ok {
				go r.tick()
			}
			s := &script{view: v, clock: newClock()}
			parallelRun(s)
			if err := v.Close(); err != nil {
				t.Fatal(err)
			}
			failingRun(s) // dropped
			checkScreen(t, sc)
			if mode != ModeJSON && strings.Contains(sc.text(), "FAILED") {
				t.Error("events after Close are shown")
			}
		})
	}
}

// FuzzEvents gives events in any order, with any names, to every view.
func FuzzEvents(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, "name", "output\n")
	f.Add([]byte{16, 33, 2, 50, 18, 34, 10}, "\x1b[2J\u202e", "a\x1b[5A\rb\n\x00")
	f.Add([]byte{0, 0, 16, 10, 2, 2}, "\xff\xc2\x9b", "\x1b]0;")
	f.Fuzz(func(t *testing.T, ops []byte, name, text string) {
		paths := []string{"", "1", "1.1", "1.2", "1.1.1", "2"}
		for _, mode := range []Mode{ModePlain, ModeTTY, ModeQuiet, ModeJSON} {
			c := newClock()
			var stderr bytes.Buffer
			sc := newScreen(20, 6)
			o := Options{Mode: mode, Stderr: &stderr, Verbose: 2, Now: c.Now, Show: []Show{ShowAll, ShowFail}[len(ops)%2]}
			if mode == ModeTTY {
				o.Stdout, o.Stderr, o.StdoutTTY, o.StderrTTY = sc, sc, true, true
				o.Width, o.Height = func() int { return sc.width }, func() int { return sc.height }
			}
			o = o.withDefaults()
			s := &script{clock: c, view: View(newJSONView(io.Discard))}
			if mode != ModeJSON {
				s.view = newReporter(o)
			}
			for _, op := range ops {
				s.event(paths[int(op>>4)%len(paths)], fuzzBody(op&15, name, text))
				s.pass(time.Duration(op) * time.Second)
			}
			if err := s.view.Close(); err != nil {
				t.Fatal(err)
			}
			if mode == ModeTTY {
				checkScreen(t, sc)
			}
			if i := strings.IndexFunc(stderr.String(), func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) }); i >= 0 {
				t.Errorf("%s: a control character is written: %q", mode, stderr.String()[i:])
			}
		}
	})
}

func fuzzBody(op byte, name, text string) event.Body {
	err := &event.Error{Message: name, Hint: text}
	switch op {
	case 0:
		return event.StepStarted{Name: name, Kind: event.KindParallel}
	case 1:
		return event.StepStarted{Name: name, Title: text}
	case 2, 3:
		return event.Log{Stream: event.Stdout, Data: []byte(text)}
	case 4:
		return event.StepFinished{Status: event.Success}
	case 5:
		return event.StepFinished{Status: event.Failure, Allowed: len(name)%2 == 0, Error: err}
	case 6:
		return event.StepSkipped{Name: name, Reason: text}
	case 7:
		return event.Progress{ID: name, Title: text, Current: int64(len(text)), Total: int64(len(name)), Unit: name}
	case 8:
		return event.Warning{Message: text}
	case 9:
		return event.Stopping{Reason: name, Grace: plan.Duration(time.Second)}
	case 10:
		return event.RunFinished{Status: event.Failure, Error: err}
	case 11:
		return event.StepRetrying{Attempt: 1, Max: 2, Error: err}
	case 12:
		return event.StepResolved{Ref: name, Dir: text}
	case 13:
		return event.ExecStarted{Command: []string{name, text}, Unset: []string{name}}
	case 14:
		return event.ExecFinished{Signal: name}
	case 15:
		return event.Paused{Before: name}
	}
	return event.RunStarted{ID: name, Source: text}
}

// BenchmarkPlainLog passes 100 MB of log, in pieces as a pipe gives them; the aim is 500 MB/s and no allocation per line.
func BenchmarkPlainLog(b *testing.B) {
	for _, size := range []int{512, 32 << 10} {
		b.Run(fmt.Sprintf("pieces of %d bytes", size), func(b *testing.B) {
			const total = 100 << 20
			piece := bytes.Repeat([]byte("a line of a log of a usual length, not very long\n"), size/49+1)[:size]
			b.SetBytes(total)
			for b.Loop() {
				v := New(Options{Mode: ModePlain, Stdout: io.Discard, Stderr: io.Discard})
				v.Event(event.Event{Step: "1", Body: event.StepStarted{Name: "build"}})
				e := event.Event{Step: "1", Body: event.Log{Stream: event.Stdout, Data: piece}}
				for n := 0; n < total; n += size {
					v.Event(e)
				}
				v.Close()
			}
		})
	}
}

func TestPlainLogDoesNotAllocate(t *testing.T) {
	v := newReporter(Options{Mode: ModePlain}.withDefaults())
	v.Event(event.Event{Step: "1", Body: event.StepStarted{Name: "build"}})
	e := event.Event{Step: "1", Body: event.Log{Stream: event.Stdout, Data: bytes.Repeat([]byte("line\n"), 1000)}}
	for range 100 {
		v.Event(e)
	}
	if n := testing.AllocsPerRun(100, func() { v.Event(e) }); n > 0 {
		t.Errorf("%v allocations for 1000 lines", n)
	}
	runtime.KeepAlive(v)
}
