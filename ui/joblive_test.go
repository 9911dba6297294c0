package ui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/rungci/rung/steps/event"
)

// theatre is a view of jobs in front of a screen, of which it takes pictures.
type theatre struct {
	*jobLines
	clock    *clock
	screen   *screen
	pictures []txtar.File
}

func newTheatre(width, height int, names ...string) *theatre {
	c, sc := newClock(), newScreen(width, height)
	o := Options{
		Mode: ModeTTY, Now: c.Now, StdoutTTY: true, StderrTTY: true, Stdout: sc, Stderr: sc,
		Width: func() int { return sc.width }, Height: func() int { return sc.height },
	}
	return &theatre{jobLines: newJobLines(o.withDefaults(), names), clock: c, screen: sc}
}

func (s *theatre) pass(d time.Duration) {
	s.clock.now = s.clock.now.Add(d)
	s.tick()
}

func (s *theatre) picture(name string) {
	s.pass(frameInterval)
	s.pictures = append(s.pictures, txtar.File{Name: name, Data: []byte(s.screen.text())})
}

// runs starts a job, and what tells its events.
func (s *theatre) runs(job string) *script {
	s.Started(job)
	return &script{view: s.Run(job), clock: s.clock}
}

func (s *theatre) ends(sc *script, r JobResult) {
	status := event.Success
	if r.Status == JobFailed {
		status = event.Failure
	}
	sc.event("", event.RunFinished{Status: status})
	_ = sc.view.Close()
	r.Attempts, r.Duration = 1, 2*time.Second
	s.Finished(r)
}

func TestScreensOfJobs(t *testing.T) {
	for _, test := range []struct {
		name, about   string
		width, height int
		jobs          []string
		tell          func(*theatre)
	}{
		{"jobs-run", "Jobs that run stick at the bottom with their step and time, what ended scrolls by.", 76, 24, []string{"build", "unit tests", "lint", "deploy"}, func(s *theatre) {
			s.picture("before a job starts")
			build, tests := s.runs("build"), s.runs("unit tests")
			s.Prepare("build", event.Preparing{Phase: event.PhasePulling, Subject: "node:20"})
			s.Prepare("build", event.Preparing{Phase: event.PhasePulling, Subject: "node:20", Current: 30e6, Total: 70e6, Unit: "bytes"})
			s.picture("before their steps run")
			s.Prepare("build", event.Preparing{Phase: event.PhasePulling, Subject: "node:20", Current: 70e6, Unit: "bytes", Done: true, Duration: 12 * time.Second})
			s.Prepare("build", event.Preparing{Phase: event.PhaseStarting})
			build.begin()
			tests.begin()
			build.start("1", "get_sources")
			tests.start("1", "script")
			build.ok("1")
			build.start("2", "script")
			build.out("2", "compiling a\ncompiling b")
			tests.out("1", "ok 1\n")
			s.pass(65 * time.Second)
			s.picture("both run")
			build.event("", event.Progress{ID: "x", Title: "fetching", Current: 3, Total: 7, Unit: "layers"})
			s.picture("with progress")
			build.ok("2")
			s.ends(build, JobResult{Name: "build", Status: JobSuccess, Ignored: "node:20"})
			s.picture("one is left")
			tests.exit("1", 2)
			s.ends(tests, JobResult{Name: "unit tests", Status: JobFailed, Note: "script failed with exit code 2"})
			s.Finished(JobResult{Name: "lint", Status: JobSkipped, Note: "unit tests failed"})
			s.Finished(JobResult{Name: "deploy", Status: JobManual, Note: `--manual "deploy" runs it`})
			s.picture("none is left")
		}},
		{"jobs-many", "No more jobs have rows than there is room for; the rest is counted.", 60, 6, nil, func(s *theatre) {
			for _, name := range strings.Fields("a b c d e f") {
				s.runs(name).begin()
			}
			s.Say("a", "a note")
			s.picture("running")
		}},
		{"jobs-suspended", "While somebody else uses the terminal nothing is drawn, and nothing is lost.", 60, 8, []string{"a", "b"}, func(s *theatre) {
			a, b := s.runs("a"), s.runs("b")
			a.begin()
			b.begin()
			b.start("1", "script")
			s.picture("before")
			resume := s.Suspend()
			b.out("1", "meanwhile\n")
			s.picture("suspended")
			resume()
			s.picture("after")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newTheatre(test.width, test.height, test.jobs...)
			test.tell(s)
			for range 2 {
				if err := s.Close(); err != nil {
					t.Fatal(err)
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

func TestWhatIsSaidOfSeveralJobsIsToldOnce(t *testing.T) {
	var err strings.Builder
	v := NewJobs(Options{Mode: ModePlain, Stderr: &err}, []string{"a", "b"})
	for _, job := range strings.Fields("a b c d e f") {
		v.Say(job, "interruptible: Ctrl-C does that here")
		v.Warn(job, "volumes are left out", "")
	}
	v.Say("", "of all")
	v.Say("", "of all")
	v.Ended(nil, 0)
	text := err.String()
	for sentence, want := range map[string]int{"Ctrl-C does that here": 2, "volumes are left out": 2, "of all": 2, "6 jobs (a, b, c and 3 more): volumes": 1} {
		if got := strings.Count(text, sentence); got != want {
			t.Errorf("%q is said %d times:\n%s", sentence, got, text)
		}
	}
}

func TestAJobWithoutItsImageIsNoPlainSuccess(t *testing.T) {
	var err strings.Builder
	v := NewJobs(Options{Mode: ModePlain, Stderr: &err}, nil)
	v.Ended([]JobResult{
		{Name: "a", Status: JobSuccess, Attempts: 1, Duration: time.Second},
		{Name: "b", Status: JobSuccess, Attempts: 1, Duration: time.Second, Ignored: "node:20", Note: "coverage 80%"},
	}, time.Second)
	want := `✓ a    success                  1.0s
✓ b    passed, image ignored    1.0s  without its image node:20; coverage 80%
OK 2 jobs (1 without its image) in 1.0s
`
	if diff := cmp.Diff(want, err.String()); diff != "" {
		t.Error(diff)
	}
}

func TestPreparationHasALineFromTimeToTime(t *testing.T) {
	var err strings.Builder
	c := newClock()
	v := NewJobs(Options{Mode: ModePlain, Stderr: &err, Now: c.Now}, []string{"a", "b"})
	for i := range 100 { // seven seconds and a half
		v.Prepare("a", event.Preparing{Phase: event.PhasePulling, Subject: "node:20", Current: int64(i) * 1e6, Total: 100e6, Unit: "bytes"})
		c.now = c.now.Add(75 * time.Millisecond)
	}
	v.Prepare("a", event.Preparing{Phase: event.PhasePulling, Subject: "node:20", Current: 100e6, Unit: "bytes", Done: true, Duration: 7500 * time.Millisecond})
	v.Prepare("a", event.Preparing{Phase: event.PhaseServices, Subject: "redis"})
	v.Prepare("a", event.Preparing{Phase: event.PhaseServices, Subject: "redis", Message: "redis exposes no port"})
	v.Prepare("a", event.Preparing{Phase: event.PhaseServices, Subject: "redis", Done: true})
	v.Prepare("a", event.Preparing{Phase: event.PhaseCreating})
	want := `a │ pulling node:20
a │ pulling node:20  67%  67.0 of 100.0 MB
a │ pulled node:20  100.0 MB in 7.5s
a │ starting service redis
a │ redis exposes no port
a │ started service redis
`
	if diff := cmp.Diff(want, err.String()); diff != "" {
		t.Error(diff)
	}
}
