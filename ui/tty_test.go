package ui

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/rungci/rung/steps/event"
)

// stage is a script in front of a screen, of which it takes pictures.
type stage struct {
	*script
	screen   *screen
	pictures []txtar.File
}

func newStage(o Options, width, height int) *stage {
	c, sc := newClock(), newScreen(width, height)
	o.Now, o.Mode, o.StdoutTTY, o.StderrTTY = c.Now, ModeTTY, true, true
	o.Stdout, o.Stderr = sc, sc
	o.Width, o.Height = func() int { return sc.width }, func() int { return sc.height }
	return &stage{script: &script{view: newReporter(o.withDefaults()), clock: c}, screen: sc}
}

func (s *stage) picture(name string) {
	s.pass(frameInterval)
	s.pictures = append(s.pictures, txtar.File{Name: name, Data: []byte(s.screen.text())})
}

func TestTTYScreens(t *testing.T) {
	tests := []struct {
		name, about   string
		width, height int
		options       Options
		tell          func(*stage)
	}{
		{"tty-run", "Committed lines scroll, the live area sticks and is gone at the end.", 60, 12, Options{}, func(s *stage) {
			s.begin()
			s.start("1", "build")
			s.out("1", "compiling\n")
			s.out("1", "linking 50%\rlinking 60%")
			s.picture("while it runs")
			s.pass(75 * time.Second)
			s.out("1", "\rlinking 99%\n")
			s.picture("later")
			s.ok("1")
			s.start("2", "lint")
			s.out("2", "no newline at the end")
			s.exit("2", 2)
			s.event("3", event.StepSkipped{Name: "deploy", Reason: "a step before it failed"})
			s.end(event.Failure, stepError(2), event.Counts{Success: 1, Failure: 1, Skipped: 1})
		}},
		{"tty-parallel", "Steps in parallel have a row each.", 60, 16, Options{}, func(s *stage) {
			s.begin()
			s.startKind("1", "checks", event.KindParallel)
			s.start("1.1", "lint")
			s.start("1.2", "test")
			s.out("1.1", "lint 1\nlin")
			s.out("1.2", "test 1\n")
			s.event("", event.Progress{ID: "x", Title: "fetching images", Current: 450, Total: 1000, Unit: "bytes"})
			s.picture("both running")
			s.event("", event.Progress{ID: "x", Title: "fetching images", Done: true})
			s.ok("1.1")
			s.picture("one left")
			s.ok("1.2")
			s.ok("1")
			s.end(event.Success, nil, event.Counts{Success: 2})
		}},
		{"tty-many", "No more than eight steps have rows; the rest is counted.", 60, 30, Options{ASCII: true}, func(s *stage) {
			s.begin()
			s.startKind("1", "all", event.KindParallel)
			for i := range 20 {
				s.start(fmt.Sprintf("1.%d", i+1), fmt.Sprintf("job_%d", i+1))
			}
			s.ok("1.3")
			s.picture("running")
		}},
		{"tty-low", "On a terminal of five lines one committed line stays visible.", 60, 5, Options{}, func(s *stage) {
			s.begin()
			s.startKind("1", "all", event.KindParallel)
			for i := range 6 {
				s.start(fmt.Sprintf("1.%d", i+1), fmt.Sprintf("job_%d", i+1))
			}
			s.event("", event.Progress{ID: "x", Title: "fetching", Current: 3, Unit: "layers"})
			s.picture("running")
			s.out("1.2", "a line\n")
			s.picture("after a line")
		}},
		{"tty-narrow", "On a narrow terminal the rows are cut, committed lines are not.", 20, 10, Options{}, func(s *stage) {
			s.begin()
			s.start("1", "a_step_with_a_long_name")
			s.out("1", "a line that is longer than the terminal\n")
			s.out("1", "日本語のとても長い行です、はい")
			s.event("", event.Progress{ID: "x", Title: "fetching something", Current: 3, Total: 9, Unit: "layers"})
			s.picture("running")
			s.pass(time.Second)
			s.picture("again")
			s.ok("1")
		}},
		{"tty-resize", "A live area that the terminal has wrapped is removed whole.", 60, 12, Options{}, func(s *stage) {
			s.begin()
			s.startKind("1", "checks", event.KindParallel)
			s.start("1.1", "lint")
			s.start("1.2", "test")
			s.out("1.1", "a long line of output that fills up the row\n")
			s.out("1.2", "another long line of output of the test\n")
			s.picture("wide")
			s.screen.resize(30, 12)
			s.picture("narrow")
			s.screen.resize(80, 6)
			s.picture("wide and low")
			s.ok("1.1")
			s.ok("1.2")
			s.ok("1")
		}},
		{"tty-hostile", "What a step writes cannot leave its line.", 40, 8, Options{}, func(s *stage) {
			s.begin()
			s.start("1", "evil")
			s.out("1", "\x1b[2J\x1b[H\x1b]0;title\x07home\x1b[31mred\n")
			s.out("1", "\x00\xff\xfe binary \x1b[5A up\n")
			s.err("1", "\x1b[1000Bdown \u009b2J\x1bc end")
			s.picture("running")
			s.ok("1")
		}},
		{"tty-show-none", "Output that is not committed is still seen in the live area.", 50, 8, Options{Show: ShowNone}, func(s *stage) {
			s.begin()
			s.start("1", "build")
			s.out("1", "compiling a\ncompiling b\n")
			s.picture("running")
			s.ok("1")
		}},
	}
	for _, test := range tests {
		t.Run(test.name+": "+strings.ToLower(test.about), func(t *testing.T) {
			s := newStage(test.options, test.width, test.height)
			test.tell(s)
			for range 2 {
				if err := s.view.Close(); err != nil {
					t.Fatalf("Close: %v", err)
				}
			}
			s.pictures = append(s.pictures, txtar.File{Name: "at the end", Data: []byte(s.screen.text())})
			checkScreen(t, s.screen)
			path := filepath.Join("testdata", test.name+".txtar")
			text := txtar.Format(&txtar.Archive{Comment: []byte(test.about + "\n\n"), Files: s.pictures})
			if *update {
				if err := os.WriteFile(path, text, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), string(text)); diff != "" {
				t.Errorf("%s differs (-want +got):\n%s", path, diff)
			}
		})
	}
}

// checkScreen checks what holds of every screen that is left behind.
func checkScreen(t *testing.T, s *screen) {
	t.Helper()
	if len(s.problems) > 0 {
		t.Errorf("the terminal was sent what it does not know: %q", s.problems)
	}
	if s.hidden || s.noWrap || s.synced {
		t.Errorf("left behind: cursor hidden %v, wrapping off %v, output held %v", s.hidden, s.noWrap, s.synced)
	}
	if s.x != 0 {
		t.Errorf("the cursor is left in column %d", s.x)
	}
}

func TestTTYDrawsSeldom(t *testing.T) {
	s := newStage(Options{}, 80, 24)
	s.begin()
	s.start("1", "build")
	before := s.screen.writes
	for range 1000 { // a second
		s.out("1", "a line\n")
		s.pass(time.Millisecond)
	}
	if n := s.screen.writes - before; n > 12 {
		t.Errorf("1000 lines in a second were drawn %d times, want 12 at most", n)
	}
	s.view.Close()
	if n := strings.Count(s.screen.text(), "a line\n"); n != 1000 {
		t.Errorf("%d of 1000 lines are on the screen", n)
	}
}

func TestTTYWithStdoutInAFile(t *testing.T) {
	var file strings.Builder
	c, sc := newClock(), newScreen(60, 10)
	s := &script{clock: c, view: newReporter(Options{
		Mode: ModeTTY, Stdout: &file, Stderr: sc, StderrTTY: true, Now: c.Now,
	}.withDefaults())}
	s.begin()
	s.start("1", "build")
	s.out("1", "data\x00 without a newline")
	s.err("1", "a warning\n")
	s.pass(time.Second)
	s.exit("1", 2)
	s.end(event.Failure, stepError(2), event.Counts{Failure: 1})
	s.view.Close()
	if got, want := file.String(), "data\x00 without a newline"; got != want {
		t.Errorf("the file holds %q, want %q", got, want)
	}
	checkScreen(t, sc)
	for _, want := range []string{"a warning\n", "output of build", "data without a newline"} {
		if !strings.Contains(sc.text(), want) {
			t.Errorf("the screen lacks %q:\n%s", want, sc.text())
		}
	}
}
