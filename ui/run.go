package ui

import (
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
)

const (
	maxFailures  = 8   // how many failures are remembered for the end of the run
	maxProgress  = 256 // how many pieces of work are followed at a time
	maxPathBytes = 160 // how much of the names of the steps around a step stands before its own
	finalLines   = 20  // how many last lines of the failing step are shown again at the end
)

// run is how a run stands, as far as a view must know. It holds what is running, not what has been: its size does not
// grow with the number of steps or the size of their logs.
type run struct {
	started  time.Time
	source   string // the text the run was started with
	file     string // the name that spans know that text by
	job      *event.Identity
	running  []*step
	byPath   map[string]*step
	leaves   int // running steps without running children: those that work
	counts   event.Counts
	progress []*progress
	failures []failure
	lost     int // failures beyond maxFailures
	noted    noted
	errors   []stepNote // the first of them
}

// step is a step that is running.
type step struct {
	path       string // "2.1"
	label      string // what people know it by: "build/compile"
	childOf    string // what the labels of its children begin with
	depth      int
	parent     *step
	kind       event.StepKind
	span       diag.Span
	started    time.Time
	inParallel bool // it or a step around it stands in a parallel group
	running    int  // children
	isList     bool // has had children
	tail       tail
	partial    [2][]byte // an unfinished line, per stream, where lines are put out whole
	seen       time.Time // when anything of it was last shown
	reminders  int       // since then
	signal     string
	// annotations counts those of the step; waiting are those that its output has not shown yet.
	annotations int
	waiting     []event.Annotation
	elsewhere   bool // some of its output went where a person at the terminal does not see it
}

// failure is a step that failed, without being allowed to, by itself and not through a step in it.
type failure struct {
	path, label string
	outcome     string // "exit 2 after 14.8s"
	span        diag.Span
	err         *event.Error
	lines       []string // the last of its output
	all         bool     // lines are all of it
	shown       bool     // the output was put out when it came
}

// progress is a piece of work that is not done.
type progress struct {
	event.Progress
	shown   time.Time // when it was last put out, or began
	current int64     // what was put out then
	printed bool
}

func parentPath(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '.'))]
}

func isUnder(path, ancestor string) bool {
	return strings.HasPrefix(path, ancestor) && len(path) > len(ancestor) && path[len(ancestor)] == '.'
}

// place returns a step, not started yet, with its name and its place in the tree. Names in a parallel group are those of
// the list around it, so the group's own name is left out of them.
func (r *run) place(path, name, title string, now time.Time) *step {
	s := &step{path: path, started: now, seen: now, parent: r.byPath[parentPath(path)]}
	own := cleanLabel(title)
	if own == "" {
		own = cleanLabel(name)
	}
	if own == "" {
		own = "step " + cleanLabel(path)
	}
	s.label, s.childOf = own, cleanLabel(name)+"/"
	if p := s.parent; p != nil {
		s.depth = p.depth + 1
		s.inParallel = p.inParallel || p.kind == event.KindParallel
		above := p.childOf
		if len(above) > maxPathBytes {
			above = ".../"
		}
		s.label, s.childOf = above+s.label, above+s.childOf
	}
	return s
}

func (r *run) start(path string, b event.StepStarted, now time.Time) *step {
	if old := r.byPath[path]; old != nil { // a step of a list that is retried starts again
		r.remove(old)
	}
	s := r.place(path, b.Name, b.Title, now)
	s.kind, s.span = b.Kind, b.Span
	if s.kind == event.KindParallel {
		s.childOf = ""
		if s.parent != nil {
			s.childOf = s.parent.childOf
		}
	}
	s.isList = s.kind == event.KindParallel || s.kind == event.KindSteps
	r.byPath[path] = s
	r.running = append(r.running, s)
	r.leaves++
	if p := s.parent; p != nil {
		if p.running == 0 {
			r.leaves--
		}
		p.running++
		p.isList = true
	}
	return s
}

// skip counts a step that does not run.
func (r *run) skip(path string, b event.StepSkipped, now time.Time) *step {
	s := r.place(path, b.Name, b.Title, now)
	if s.parent != nil {
		s.parent.isList = true
	}
	r.counts.Skipped++
	return s
}

// remove takes a step that ended, and whatever in it was left running, out of the tree.
func (r *run) remove(s *step) {
	for i := len(r.running) - 1; s.running > 0 && i >= 0; i-- {
		if i < len(r.running) && r.running[i].parent == s {
			r.remove(r.running[i])
		}
	}
	delete(r.byPath, s.path)
	if i := slices.Index(r.running, s); i >= 0 {
		r.running = slices.Delete(r.running, i, i+1)
	}
	r.leaves--
	if p := s.parent; p != nil {
		if p.running--; p.running == 0 {
			r.leaves++
		}
	}
}

// working calls f for the running steps that have no step running in them, the oldest first, until it returns false.
func (r *run) working(f func(*step) bool) {
	for _, s := range r.running {
		if s.running == 0 && !f(s) {
			return
		}
	}
}

// count counts a step that ended, as event.Counts does: lists count only through the steps in them.
func (r *run) count(s *step, b event.StepFinished) {
	switch {
	case s.isList:
	case b.Status == event.Success:
		r.counts.Success++
	case b.Status == event.Cancelled:
		r.counts.Cancelled++
	case b.Status == event.Failure && b.Allowed:
		r.counts.Allowed++
	case b.Status == event.Failure:
		r.counts.Failure++
	}
}

// forget drops the failures in a step: it is tried again, or was allowed to fail.
func (r *run) forget(path string) {
	r.failures = slices.DeleteFunc(r.failures, func(f failure) bool { return isUnder(f.path, path) })
}

func (r *run) hasFailureIn(path string) bool {
	return slices.ContainsFunc(r.failures, func(f failure) bool { return isUnder(f.path, path) })
}

// allowed reports whether the run is a job that failed and was allowed to.
func (r *run) allowed(b event.RunFinished) bool {
	return b.Status == event.Failure && r.job.Allows(b.ExitCode)
}

func (r *run) addFailure(f failure) {
	if len(r.failures) == maxFailures {
		r.lost++
		return
	}
	r.failures = append(r.failures, f)
}

// advance notes a progress event and returns its record; nil when too many are under way to follow one more.
func (r *run) advance(p event.Progress, now time.Time) *progress {
	i := slices.IndexFunc(r.progress, func(old *progress) bool { return old.ID == p.ID })
	if i < 0 {
		if len(r.progress) == maxProgress {
			return nil
		}
		i = len(r.progress)
		r.progress = append(r.progress, &progress{shown: now})
	}
	record := r.progress[i]
	record.Progress = p
	if p.Done {
		r.progress = slices.Delete(r.progress, i, i+1)
	}
	return record
}

// sourceLine returns the line of the run's own text that a span points at, "" when the span points elsewhere. A text of
// one line may be a reference to a file that the span is in, so it says nothing.
func (r *run) sourceLine(s diag.Span) string {
	if s.Line < 1 || s.File != r.file || !strings.Contains(strings.TrimSpace(r.source), "\n") {
		return ""
	}
	n := 0
	for line := range strings.Lines(r.source) {
		if n++; n == s.Line {
			return strings.TrimRight(line, "\r\n")
		}
	}
	return ""
}
