package ui

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/steps/event"
)

const (
	plainTick = time.Second
	// frameInterval is the least time between two draws of the live area.
	frameInterval = 90 * time.Millisecond
	// nearLines is how many lines of ours may follow a step's output before it is no longer "right above".
	nearLines = 10
	// maxReminders bounds how many silent steps are named at a time.
	maxReminders = 8
)

// reporter decides what is said about a run. It is the whole of the plain and quiet views, and of the tty view but for
// the live area.
type reporter struct {
	mu      sync.Mutex
	o       Options
	look    look
	run     run
	folds   folds
	out     printer
	quiet   bool
	closed  bool
	stop    chan struct{} // ends the clock; nil when there is none
	stopped chan struct{}
	stray   step   // stands for steps we know nothing of
	owner   string // the step whose output was shown last
	since   int    // lines of ours since then
	err     error
	// errorsLater leaves the errors of a run out of its ending: whoever shows several runs shows them under theirs.
	errorsLater bool
	// shown reports whether what is said now is seen now; nil is always. If not, nobody is reminded of silent steps.
	shown func() bool
}

func newReporter(o Options) *reporter {
	r := &reporter{o: o, look: newLook(o), quiet: o.Mode == ModeQuiet, stray: step{label: "run"}, folds: folds{kind: o.Fold}}
	r.run.byPath = map[string]*step{}
	r.run.started = o.Now()
	if o.Mode == ModeTTY {
		r.out = newTTY(o, &r.run)
	} else {
		r.out = newPlain(o)
	}
	return r
}

func (r *reporter) wording() wording { return wording{r.look, r.o.Verbose} }

// startClock makes the view say that silent steps are alive, and draws the live area.
func (r *reporter) startClock() {
	interval := plainTick
	if r.o.Mode == ModeTTY {
		interval = frameInterval
	}
	r.stop, r.stopped = make(chan struct{}), make(chan struct{})
	ticker := time.NewTicker(interval)
	go func() {
		defer close(r.stopped)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r.tick()
			case <-r.stop:
				return
			}
		}
	}()
}

func (r *reporter) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	now := r.o.Now()
	r.settleAll()
	if r.o.Mode == ModePlain && (r.shown == nil || r.shown()) {
		r.remind(now)
	}
	r.out.tick(now)
}

// Close puts out what is held back, restores the terminal and returns the first error of writing.
func (r *reporter) Close() error {
	r.mu.Lock()
	if !r.closed {
		r.settleAll()
		r.closed = true
		for _, s := range r.run.running {
			r.out.ended(s)
		}
		r.out.ended(&r.stray)
		r.insist(r.folds.endTo(0, r.o.Now()))
		r.err = r.out.close()
		if r.stop != nil {
			close(r.stop)
		}
	}
	stopped, err := r.stopped, r.err
	r.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
	return err
}

// Event shows the event.
func (r *reporter) Event(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	now := r.o.Now()
	if s := r.find(e.Step); len(s.waiting) > 0 && !speaks(e.Body) {
		r.settle(s)
	}
	switch b := e.Body.(type) {
	case event.Log:
		r.log(e.Step, b, now)
	case event.Annotation:
		r.annotated(e.Step, b)
	case event.RunStarted:
		r.runStarted(b, now)
	case event.StepStarted:
		s := r.run.start(e.Step, b, now)
		r.say(r.folds.start(s, r.wording().startLine(s), now))
	case event.ExecStarted:
		if b.LogHeld && r.o.Show == ShowAll {
			r.say(r.wording().heldLine(r.find(e.Step)))
		}
		r.detail(e.Step, e.Body)
	case event.StepSkipped:
		r.say(r.wording().skipLine(r.run.skip(e.Step, b, now), b))
	case event.StepRetrying:
		r.retrying(e.Step, b)
	case event.StepFinished:
		r.finished(e.Step, b)
	case event.Progress:
		r.progress(b, now)
	case event.Warning:
		r.insist(r.problems().warningText(b))
	case event.Stopping:
		r.insist(r.run.stoppingLine(r.look, b))
	case event.Paused:
		r.insist(r.look.paint(styleWarn, "paused before step "+brief(b.Before)) + "\n")
	case event.Resumed:
		r.insist(r.look.paint(styleFaint, "resumed before step "+brief(b.Before)) + "\n")
	case event.RunFinished:
		r.runFinished(b)
	default:
		r.detail(e.Step, e.Body)
	}
	r.out.tick(now)
}

// speaks reports whether an event may follow an annotation before the output that shows it does.
func speaks(body event.Body) bool {
	switch body.(type) {
	case event.Log, event.Annotation:
		return true
	}
	return false
}

// say commits lines that a quiet view leaves out.
func (r *reporter) say(text string) {
	if !r.quiet {
		r.insist(text)
	}
}

// insist commits lines that every view shows.
func (r *reporter) insist(text string) {
	if text == "" {
		return
	}
	r.out.status(text)
	r.since += strings.Count(text, "\n")
}

// find returns the running step at a path, or the stand-in for one we know nothing of.
func (r *reporter) find(path string) *step {
	if s := r.run.byPath[path]; s != nil {
		return s
	}
	return &r.stray
}

func (r *reporter) runStarted(b event.RunStarted, now time.Time) {
	r.run.started, r.run.source, r.run.job = now, b.Source, b.Identity
	r.folds.run = b.ID[:min(len(b.ID), maxFoldRun)]
	if b.Component != nil {
		r.run.file = b.Component.Definition.Span.File
	}
	if r.o.Verbose > 0 {
		r.say(r.wording().runLines(&r.stray, b))
	}
}

func (r *reporter) log(path string, b event.Log, now time.Time) {
	if len(b.Data) == 0 {
		return
	}
	s := r.find(path)
	s.tail.write(b.Data)
	if r.quiet || r.o.Show != ShowAll {
		return
	}
	s.seen, s.reminders = now, 0
	if b.Stream == event.Stdout && r.o.StderrTTY && !r.o.StdoutTTY {
		s.elsewhere = true
	}
	r.owner, r.since = path, 0
	r.out.output(s, b.Stream, b.Data, s.inParallel || r.run.leaves > 1)
	r.settle(s)
}

// detail shows what only a verbose view shows.
func (r *reporter) detail(path string, body event.Body) {
	s := r.find(path)
	if b, ok := body.(event.ExecFinished); ok {
		s.signal = b.Signal
	}
	if r.o.Verbose > 0 {
		r.say(r.wording().detailLines(s, body))
	}
}

func (r *reporter) retrying(path string, b event.StepRetrying) {
	s := r.find(path)
	r.out.ended(s)
	r.run.forget(path)
	r.run.forgetErrors(path)
	s.signal = ""
	r.say(r.wording().retryLine(s, b))
}

func (r *reporter) finished(path string, b event.StepFinished) {
	s := r.find(path)
	r.out.ended(s)
	failed := b.Status == event.Failure
	if b.Allowed || b.Status == event.Success {
		r.run.forget(path)
	}
	folded := r.folds.finish(s, r.o.Now())
	through := r.run.hasFailureIn(path) // it failed because a step in it did
	shown := r.o.Show == ShowAll && !s.elsewhere && !r.folds.hides()
	if failed && r.o.Show == ShowFail && !r.quiet {
		lines, all := s.tail.last(tailLines)
		r.say(r.look.tailBlock(s.label, lines, all))
		if shown = len(lines) > 0; shown {
			r.owner, r.since = path, 0
		}
	}
	outcome := r.wording().outcome(s, b)
	if failed && !b.Allowed && !through {
		f := failure{
			path: path, label: s.label, outcome: outcome, span: s.span, err: b.Error, shown: shown && !r.quiet,
		}
		f.lines, f.all = s.tail.last(finalLines)
		f.lines = r.folds.repeated(f.lines)
		r.run.addFailure(f)
	}
	r.say(folded + r.wording().finishLine(s, b, outcome, through))
	if s == &r.stray {
		r.stray = step{label: "run"}
		return
	}
	r.run.count(s, b)
	r.run.remove(s)
}

// progress puts out how far a piece of work is, after 5 % or 5 s of change, at most once a second. The live area shows
// it at every draw instead.
func (r *reporter) progress(b event.Progress, now time.Time) {
	p := r.run.advance(b, now)
	if p == nil || r.o.Mode == ModeTTY {
		return
	}
	const enoughTime, enoughPercent, atMost = 5 * time.Second, 5, time.Second
	waited := now.Sub(p.shown)
	moved := b.Total > 0 && percent(b)-percent(event.Progress{Current: p.current, Total: b.Total}) >= enoughPercent
	due := waited >= enoughTime || moved && waited >= atMost
	if b.Done {
		due = p.printed || r.o.Verbose > 0
	}
	if due {
		p.shown, p.current, p.printed = now, b.Current, true
		r.say(r.wording().progressLine(b))
	}
}

// remind says of silent steps that they are still running.
func (r *reporter) remind(now time.Time) {
	var due []*step
	r.run.working(func(s *step) bool {
		if silent := now.Sub(s.seen); silent >= reminder(s.reminders) {
			for silent >= reminder(s.reminders) {
				s.reminders++
			}
			due = append(due, s)
		}
		return true
	})
	for i, s := range due {
		if i == maxReminders {
			r.say(r.wording().stillRunningMore(len(due) - i))
			break
		}
		r.say(r.wording().stillRunning(s, now))
	}
}

var firstReminders = []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute}

// reminder returns after how much silence the nth reminder is due, counting from 0.
func reminder(n int) time.Duration {
	if n < len(firstReminders) {
		return firstReminders[n]
	}
	return time.Duration(n-len(firstReminders)+2) * 5 * time.Minute
}

// runFinished says how it ended. What is still running then will not end any more.
func (r *reporter) runFinished(b event.RunFinished) {
	r.settleAll()
	for _, s := range slices.Clone(r.run.running) {
		r.out.ended(s)
	}
	r.out.ended(&r.stray)
	r.run.running, r.run.progress, r.run.leaves = nil, nil, 0
	clear(r.run.byPath)
	r.insist(r.folds.endTo(0, r.o.Now()) + r.folds.failureCommands(r.run.failures, b, r.run.allowed(b)) + r.ending(b))
}
