package ui

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/ui/joblog"
)

// jobTurns shows the jobs of a pipeline in a job log of GitLab or GitHub, one after the other: marks of parts that fold must not be mixed, as
// groups of GitHub's do not nest, and sections of GitLab's nest. The job that has run longest has the turn, and is shown as it runs. What the
// others print is held until their turn comes; that one of them failed is said at once.
type jobTurns struct {
	*jobLines
	fold  Fold
	jobs  map[string]*jobTurn
	queue []*jobTurn // those that wait for their turn, in the order in which they started
	turn  *jobTurn   // the job that is shown; nil is none
}

// jobTurn is what is shown of one job.
type jobTurn struct {
	view     *jobTurns
	job      string
	queued   bool
	finished bool
	status   string // the line that its part ends with
	section  string // GitLab's name of its part
	held     heldOutput
}

func newJobTurns(o Options, names []string) *jobTurns {
	fold := o.Fold
	return &jobTurns{jobLines: newJobLines(o, names), fold: fold, jobs: map[string]*jobTurn{}}
}

// of returns what is shown of a job. The caller holds the lock.
func (v *jobTurns) of(job string) *jobTurn {
	t := v.jobs[job]
	if t == nil {
		t = &jobTurn{view: v, job: job}
		v.jobs[job] = t
	}
	return t
}

// write shows something of a job, or holds it until its turn comes. The caller holds the lock.
func (t *jobTurn) write(stream event.Stream, data []byte) {
	if t.view.turn != t {
		t.held.add(stream, data)
		return
	}
	t.show(stream, data)
}

func (t *jobTurn) show(stream event.Stream, data []byte) {
	to := t.view.out
	if stream == event.Stderr {
		to = t.view.err
	}
	to.write(data)
}

// wait puts a job in the queue. The caller holds the lock.
func (v *jobTurns) wait(t *jobTurn) {
	if !t.queued {
		t.queued = true
		v.queue = append(v.queue, t)
	}
	v.next()
}

// next gives the turn to the jobs that wait, until one of them still runs. The caller holds the lock.
func (v *jobTurns) next() {
	for v.turn == nil && len(v.queue) > 0 {
		t := v.queue[0]
		v.queue = v.queue[1:]
		v.turn = t
		v.begin(t)
		t.held.replay(t.show)
		if t.finished {
			v.end(t)
		}
	}
}

// begin starts the part of a job. On GitHub only its steps have one.
func (v *jobTurns) begin(t *jobTurn) {
	now, line := v.o.Now(), v.look.paint(styleInfo, v.look.start)+" "+cleanLabel(t.job)+"\n"
	v.out.lineStart()
	if v.fold == FoldGitLab {
		t.section = joblog.SectionName("rung_" + strconv.FormatInt(now.UnixNano(), 36) + "_" + t.job)
		line = joblog.SectionStart(now, t.section, false) + line
	}
	v.put(v.err, []byte(line))
}

// end ends the part of the job that has the turn. The caller holds the lock.
func (v *jobTurns) end(t *jobTurn) {
	v.turn = nil
	v.out.lineStart()
	text := t.status
	if t.section != "" {
		text = joblog.SectionEnd(v.o.Now(), t.section) + text
	}
	v.put(v.err, []byte(text))
}

// stream is a writer of one stream of a job.
type turnStream struct {
	turn   *jobTurn
	stream event.Stream
}

func (s *turnStream) Write(p []byte) (int, error) {
	v := s.turn.view
	v.mu.Lock()
	defer v.mu.Unlock()
	s.turn.write(s.stream, p)
	return len(p), nil
}

// Run implements JobsView.
func (v *jobTurns) Run(job string) View {
	v.mu.Lock()
	t := v.of(job)
	v.mu.Unlock()
	o := v.o
	o.Fold = v.fold
	o.Stderr = &turnStream{t, event.Stderr}
	o.Stdout = o.Stderr
	if !sameFile(v.o) {
		o.Stdout = &turnStream{t, event.Stdout}
	}
	r := newReporter(o)
	r.folds.job = job
	r.errorsLater = true
	r.shown = func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.turn == t
	}
	r.startClock()
	return &turnRun{jobRun{r, v.jobLines, job}}
}

// turnRun is the view of one run of a job.
type turnRun struct{ jobRun }

// Event shows the event.
func (r *turnRun) Event(e event.Event) {
	r.reporter.Event(e)
	if b, ok := e.Body.(event.RunFinished); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.takeNotes(b)
	}
}

// say shows a line of ours in the part of a job; that of no job is shown at once.
func (v *jobTurns) say(job, text string) {
	if job == "" {
		v.lines("", text)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.of(job).write(event.Stderr, []byte(text))
}

// Say implements JobsView.
func (v *jobTurns) Say(job, text string) {
	if v.first(job, text) {
		v.say(job, v.look.paint(styleFaint, cleanText(text))+"\n")
	}
}

// Warn implements JobsView.
func (v *jobTurns) Warn(job, text, hint string) {
	if v.first(job, text) {
		v.say(job, warning(v.o, text, hint))
	}
}

// Prepare implements JobsView.
func (v *jobTurns) Prepare(job string, p event.Preparing) {
	v.mu.Lock()
	text := v.preparing.line(job, p, false, v.o.Now())
	v.mu.Unlock()
	if text != "" {
		v.say(job, v.look.paint(styleFaint, cleanText(text))+"\n")
	}
}

// Started implements JobsView.
func (v *jobTurns) Started(job string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wait(v.of(job))
}

// Finished implements JobsView. Why a job did not run is in the table at the end.
func (v *jobTurns) Finished(r JobResult) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t := v.jobs[r.Name]
	if t == nil || !t.queued && t.held.empty() {
		return
	}
	t.finished = true
	text := v.symbol(r.outcome()) + " " + cleanLabel(r.Name) + "  " + string(r.outcome())
	if r.Attempts > 0 {
		text += " after " + exact(r.Duration)
	}
	if note := r.remark(); note != "" {
		text += "  " + brief(note)
	}
	t.status = text + "\n"
	switch {
	case v.turn == t:
		v.end(t)
		v.next()
	case v.turn != nil && r.outcome() == JobFailed:
		v.put(v.err, []byte(text+"; its log is below\n"))
	}
	if v.turn != t && !t.queued {
		v.wait(t)
	}
}

// Ended implements JobsView.
func (v *jobTurns) Ended(results []JobResult, took time.Duration) {
	v.finish()
	v.jobLines.Ended(results, took)
}

// Close implements JobsView.
func (v *jobTurns) Close() error {
	v.finish()
	return v.jobLines.Close()
}

// finish shows what is still held, as if all jobs had finished.
func (v *jobTurns) finish() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range v.queue {
		t.finished = true
	}
	if v.turn != nil {
		v.end(v.turn)
	}
	v.next()
	for _, name := range slices.Sorted(maps.Keys(v.jobs)) { // what came after the end of a job
		if t := v.jobs[name]; !t.held.empty() {
			t.finished = true
			v.queue = append(v.queue, t)
		}
	}
	v.next()
}
