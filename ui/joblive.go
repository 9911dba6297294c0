package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// liveJobs is the live area of a pipeline: a row for each job that runs, and the counts.
type liveJobs struct {
	*liveArea
	started   time.Time
	running   []*liveJob      // in the order in which they started
	waiting   map[string]bool // jobs that are known and have not started
	counts    map[JobStatus]int
	suspended bool
	closed    bool
	stop      func()
}

// liveJob is a job that runs.
type liveJob struct {
	name  string
	since time.Time
	run   *jobRun // nil until its steps run
	doing string  // what is done for it before
}

// activity is what a job does at the moment.
type activity struct{ step, last string }

func newLiveJobs(o Options, names []string) *liveJobs {
	l := &liveJobs{liveArea: newLiveArea(o), started: o.Now(), waiting: map[string]bool{}, counts: map[JobStatus]int{}, stop: func() {}}
	for _, name := range names {
		l.waiting[name] = true
	}
	return l
}

// find returns a job that runs; nil is none.
func (l *liveJobs) find(name string) *liveJob {
	for _, j := range l.running {
		if j.name == name {
			return j
		}
	}
	return nil
}

func (l *liveJobs) begin(name string, now time.Time) {
	delete(l.waiting, name)
	if l.find(name) == nil {
		l.running = append(l.running, &liveJob{name: name, since: now})
	}
}

func (l *liveJobs) end(name string, status JobStatus) {
	delete(l.waiting, name)
	l.running = slices.DeleteFunc(l.running, func(j *liveJob) bool { return j.name == name })
	l.counts[status]++
}

// startClock draws the live area from time to time.
func (v *jobLines) startClock() {
	done, stopped := make(chan struct{}), make(chan struct{})
	v.live.stop = func() { close(done); <-stopped }
	ticker := time.NewTicker(frameInterval)
	go func() {
		defer close(stopped)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				v.tick()
			case <-done:
				return
			}
		}
	}()
}

// tick draws the live area. What a job does is asked without the lock: its view holds its own while it puts out lines.
func (v *jobLines) tick() {
	now := v.o.Now()
	v.mu.Lock()
	jobs := slices.Clone(v.live.running)
	runs := make([]*jobRun, len(jobs))
	for i, j := range jobs {
		runs[i] = j.run
	}
	v.mu.Unlock()
	does := make([]activity, len(jobs))
	for i, run := range runs {
		if run != nil {
			does[i] = run.activity()
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.live.suspended || v.live.closed {
		return
	}
	v.live.tick(now, func() []string { return v.liveRows(jobs, does, now) })
}

// activity is what the run does at the moment.
func (j *jobRun) activity() (out activity) {
	r := j.reporter
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return out
	}
	r.settleAll()
	r.run.working(func(s *step) bool {
		if out.step == "" {
			out = activity{s.label, s.tail.lastLine()}
		}
		return true
	})
	if r.run.leaves > 1 {
		out.step += fmt.Sprintf(" +%d", r.run.leaves-1)
	}
	if n := len(r.run.progress); n > 0 {
		p := r.run.progress[n-1]
		out.last = cleanLabel(p.Title) + "  " + amount(p.Progress)
	}
	return out
}

// liveRows are the rows of the jobs that run, and the counts. They leave at least one line of the terminal to the lines that scroll by.
func (v *jobLines) liveRows(jobs []*liveJob, does []activity, now time.Time) []string {
	budget := min(maxLiveRows+1, v.o.Height()-1)
	if budget < 1 || len(v.live.running) == 0 {
		return nil
	}
	width, name, step := max(1, v.o.Width()-1), 0, 0 // a full last column would wrap
	shown := min(len(jobs), budget-1)
	for i, j := range jobs[:shown] {
		if does[i].step == "" && j.doing != "" {
			does[i] = activity{"preparing", j.doing}
		}
		name = max(name, min(cellWidth(cleanText(j.name)), maxJobLabel))
		step = max(step, min(cellWidth(does[i].step), max(8, width/3)))
	}
	var rows []string
	for i, j := range jobs[:shown] {
		label := truncate(cleanText(j.name), name, v.look.dots)
		label += strings.Repeat(" ", name-cellWidth(label))
		what := truncate(does[i].step, step, v.look.dots)
		what += strings.Repeat(" ", step-cellWidth(what))
		row := v.look.paint(styleInfo, v.look.spinner[v.live.frames%len(v.look.spinner)]) + " " + v.look.paint(jobColor(j.name), label) + "  " + what + "  " +
			fmt.Sprintf("%4s", whole(now.Sub(j.since)))
		if room := width - cellWidth(row) - 2; does[i].last != "" && room >= minLastLine {
			row += "  " + v.look.paint(styleFaint, truncate(does[i].last, room, v.look.dots))
		}
		rows = append(rows, truncate(row, width, ""))
	}
	return append(rows, truncate(v.liveCounts(len(v.live.running)-shown, now), width, ""))
}

func (v *jobLines) liveCounts(hidden int, now time.Time) string {
	var parts []string
	add := func(n int, s style, what string) {
		if n > 0 {
			parts = append(parts, v.look.paint(s, fmt.Sprintf(what, n)))
		}
	}
	if hidden > 0 {
		add(hidden, styleInfo, "+%d more running")
	} else {
		add(len(v.live.running), styleInfo, "%d running")
	}
	c := v.live.counts
	add(c[JobSuccess], styleGood, "%d ok")
	add(c[jobIgnored], styleWarn, "%d ok, image ignored")
	add(c[JobFailed], styleBad, "%d failed")
	add(c[JobAllowed], styleWarn, "%d allowed to fail")
	add(c[jobApart], styleWarn, "%d failed, not counted")
	add(c[JobCancelled], styleWarn, "%d cancelled")
	add(c[JobSkipped]+c[JobManual], styleFaint, "%d not run")
	add(len(v.live.waiting), styleFaint, "%d waiting")
	return strings.Join(append(parts, whole(now.Sub(v.live.started))), "  ")
}

// Suspend implements JobsView.
func (v *jobLines) Suspend() (resume func()) {
	if v.live == nil {
		return func() {}
	}
	set := func(suspended bool) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if suspended {
			v.live.flush(nil)
		}
		v.live.suspended = suspended
	}
	set(true)
	return func() { set(false) }
}

// jobIgnored is a success that does not say what it seems to: the job ran without its image.
const jobIgnored JobStatus = "passed, image ignored"

// jobApart is a failure in a pipeline that does not decide.
const jobApart JobStatus = "failed, not counted"

// outcome is the status as people see it.
func (r *JobResult) outcome() JobStatus {
	if r.Status == JobFailed && r.Apart {
		return jobApart
	}
	if r.Status == JobSuccess && r.Ignored != "" {
		return jobIgnored
	}
	return r.Status
}

// remark is the note as people see it.
func (r *JobResult) remark() string {
	if r.Ignored == "" {
		return r.Note
	}
	return strings.TrimSuffix("without its image "+r.Ignored+"; "+r.Note, "; ")
}
