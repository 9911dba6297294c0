package ui

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/steps/event"
)

const (
	// maxJobLabel bounds the name before a line, in cells.
	maxJobLabel = 24
	// maxSummaryRows is from how many jobs on those that succeeded are only counted at the end.
	maxSummaryRows = 40
	// maxRepeated is how many different notes are remembered, to tell which are said of several jobs.
	maxRepeated = 256
)

// jobColors are what the names of jobs are told apart by; each name has the same one every time.
var jobColors = []style{"36", "35", "34", "33", "32", "96", "95", "94"}

// jobLines shows every line with the name of its job before it, on a terminal above a live area.
type jobLines struct {
	o        Options
	look     look
	bar      string // between a name and its line
	width    int    // of the names
	mu       sync.Mutex
	out, err *outlet
	live     *liveJobs           // nil is not a terminal
	said     map[string]jobNotes // of the last run of each job
	repeated []repeated
	preparing
}

// repeated is something that was said of a job, and of others after it.
type repeated struct {
	text string
	jobs []string
}

// jobNotes are what the steps of a job annotated: how much, and the errors of the step that failed.
type jobNotes struct {
	noted
	errors []event.Annotation
}

func newJobLines(o Options, names []string) *jobLines {
	o.Fold = FoldNone // lines of several jobs are mixed
	v := &jobLines{o: o, look: newLook(o), bar: " │ ", said: map[string]jobNotes{}}
	if o.ASCII {
		v.bar = " | "
	}
	if o.Mode == ModeTTY {
		v.live = newLiveJobs(o, names)
		v.out, v.err = v.live.out, v.live.err
	} else {
		v.out, v.err, _ = newOutlets(o)
	}
	for _, name := range names {
		v.width = max(v.width, min(cellWidth(cleanText(name)), maxJobLabel))
	}
	return v
}

// prefix is what stands before the lines of a job; the pipeline's own have none.
func (v *jobLines) prefix(job string) string {
	if job == "" {
		return ""
	}
	dots := "…"
	if v.o.ASCII {
		dots = ".."
	}
	label := truncate(cleanText(job), maxJobLabel, dots)
	pad := strings.Repeat(" ", max(0, v.width-cellWidth(label)))
	return v.look.paint(jobColor(job), label+pad+v.bar[:len(v.bar)-1]) + " "
}

func jobColor(job string) style {
	h := fnv.New32a()
	_, _ = h.Write([]byte(job))
	return jobColors[h.Sum32()%uint32(len(jobColors))]
}

// put puts out whole lines. The caller holds the lock.
func (v *jobLines) put(to *outlet, text []byte) {
	if v.live != nil && !v.live.closed && (to == v.err || v.live.same || v.o.StdoutTTY) {
		v.live.commit(to, text)
		return
	}
	to.lineStart()
	to.write(text)
}

// lines puts out whole lines of ours.
func (v *jobLines) lines(job, text string) {
	if text == "" {
		return
	}
	prefix := v.prefix(job)
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(prefix)
		b.WriteString(line)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.put(v.err, []byte(b.String()))
}

// Run implements JobsView.
func (v *jobLines) Run(job string) View {
	r := &reporter{o: v.o, look: v.look, quiet: v.o.Mode == ModeQuiet, stray: step{label: "run"}, folds: folds{kind: FoldNone}, errorsLater: true}
	r.run.byPath = map[string]*step{}
	r.run.started = v.o.Now()
	r.out = &jobPrinter{view: v, job: job, prefix: v.prefix(job)}
	if !r.quiet && v.live == nil {
		r.startClock()
	}
	out := &jobRun{r, v, job}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.live != nil {
		if j := v.live.find(job); j != nil {
			j.run = out
		}
	}
	return out
}

// jobRun is the view of one run. Steps that do what they should are not spoken of: their output is.
type jobRun struct {
	*reporter
	view *jobLines
	job  string
}

// Event shows the event.
func (j *jobRun) Event(e event.Event) {
	r := j.reporter
	switch b := e.Body.(type) {
	case event.StepStarted, event.StepSkipped, event.StepFinished, event.RunFinished:
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.closed {
			return
		}
		j.briefly(e, b)
	default:
		r.Event(e)
	}
}

// briefly shows events of which only what went wrong, or a verbose view, is worth a line.
func (j *jobRun) briefly(e event.Event, body event.Body) {
	r, now := j.reporter, j.o.Now()
	verbose := r.o.Verbose > 0
	r.settle(r.find(e.Step))
	switch b := body.(type) {
	case event.StepStarted:
		s := r.run.start(e.Step, b, now)
		if verbose {
			r.say(r.wording().startLine(s))
		}
	case event.StepSkipped:
		s := r.run.skip(e.Step, b, now)
		if verbose {
			r.say(r.wording().skipLine(s, b))
		}
	case event.StepFinished:
		quiet := r.quiet
		r.quiet = quiet || b.Status == event.Success && !verbose
		r.finished(e.Step, b)
		r.quiet = quiet
	case event.RunFinished:
		r.settleAll()
		j.takeNotes(b)
		for _, s := range r.run.running {
			r.out.ended(s)
		}
		r.out.ended(&r.stray)
		if f := r.run.decisive(b.Error); f != nil && f.shown {
			r.owner, r.since = f.path, 0 // its output is above, with that of others between
		}
		if text := r.ending(b); b.Status == event.Failure {
			text = strings.TrimSuffix(text, "\n")
			r.insist(text[:strings.LastIndexByte(text, '\n')+1]) // the last line is that of the pipeline
		}
	}
}

// takeNotes keeps what the steps annotated for the end of the pipeline.
func (j *jobRun) takeNotes(b event.RunFinished) {
	notes := jobNotes{noted: j.run.noted}
	if f := j.run.decisive(b.Error); f != nil && b.Status == event.Failure {
		notes.errors = j.run.errorsOf(f.path)
	}
	j.view.mu.Lock()
	defer j.view.mu.Unlock()
	j.view.said[j.job] = notes
}

// jobPrinter is the printer of one run: it writes into the view of all.
type jobPrinter struct {
	view        *jobLines
	job, prefix string
	scratch     []byte
}

func (p *jobPrinter) status(text string) { p.view.lines(p.job, text) }

func (p *jobPrinter) output(s *step, stream event.Stream, data []byte, named bool) {
	p.scratch = p.scratch[:0]
	s.wholeLines(stream, data, func(line []byte) { p.line(s, line, named) })
	p.flush(stream)
}

// line adds a line of a step. On a terminal it must not move the cursor, or the name before it would be gone.
func (p *jobPrinter) line(s *step, line []byte, named bool) {
	p.scratch = append(p.scratch, p.prefix...)
	if named {
		p.scratch = append(append(p.scratch, s.label...), p.view.look.separator...)
	}
	if p.view.o.StdoutTTY || p.view.o.StderrTTY {
		p.scratch = cleantext.AppendLine(p.scratch, lastOverwrite(line), true)
	} else {
		p.scratch = append(p.scratch, line...)
	}
	p.scratch = append(p.scratch, '\n')
}

func (p *jobPrinter) flush(stream event.Stream) {
	if len(p.scratch) == 0 {
		return
	}
	v := p.view
	v.mu.Lock()
	defer v.mu.Unlock()
	to := v.out
	if stream == event.Stderr {
		to = v.err
	}
	v.put(to, p.scratch)
}

func (p *jobPrinter) ended(s *step) {
	for _, stream := range []event.Stream{event.Stdout, event.Stderr} {
		if rest := s.partial[index(stream)]; len(rest) > 0 {
			p.scratch = p.scratch[:0]
			p.line(s, rest, false)
			s.partial[index(stream)] = nil
			p.flush(stream)
		}
	}
}

func (p *jobPrinter) tick(time.Time) {}

func (p *jobPrinter) close() error { return nil }

// Say implements JobsView.
func (v *jobLines) Say(job, text string) {
	if v.o.Mode != ModeQuiet && v.first(job, text) {
		v.lines(job, v.look.paint(styleFaint, cleanText(text))+"\n")
	}
}

// Warn implements JobsView.
func (v *jobLines) Warn(job, text, hint string) {
	if v.first(job, text) {
		v.lines(job, warning(v.o, text, hint))
	}
}

// Prepare implements JobsView.
func (v *jobLines) Prepare(job string, p event.Preparing) {
	if v.o.Mode == ModeQuiet {
		return
	}
	v.mu.Lock()
	hasRow := false
	if v.live != nil {
		if j := v.live.find(job); j != nil {
			hasRow = true
			if p.Message == "" {
				j.doing = preparingText(p)
			}
		}
	}
	text := v.preparing.line(job, p, hasRow, v.o.Now())
	v.mu.Unlock()
	if text != "" {
		v.lines(job, v.look.paint(styleFaint, cleanText(text))+"\n")
	}
}

// first reports whether something is said of the first job. What is said of others too is told of all of them together, at the end.
func (v *jobLines) first(job, text string) bool {
	if job == "" {
		return true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.repeated {
		if v.repeated[i].text == text {
			v.repeated[i].jobs = append(v.repeated[i].jobs, job)
			return false
		}
	}
	if len(v.repeated) < maxRepeated {
		v.repeated = append(v.repeated, repeated{text, []string{job}})
	}
	return true
}

// saidOfSeveral tells what was said of several jobs, and of which. The caller holds the lock.
func (v *jobLines) saidOfSeveral() string {
	var b strings.Builder
	for _, r := range v.repeated {
		slices.Sort(r.jobs) // which one came first is chance
		jobs := slices.Compact(r.jobs)
		if len(jobs) < 2 || v.o.Mode == ModeQuiet {
			continue
		}
		names := strings.Join(jobs[:min(len(jobs), maxNamed)], ", ")
		if more := len(jobs) - maxNamed; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		text := fmt.Sprintf("%s (%s): %s", plural(len(jobs), "job"), names, brief(r.text))
		b.WriteString(v.look.paint(styleFaint, cleanText(text)) + "\n")
	}
	return b.String()
}

// Started implements JobsView.
func (v *jobLines) Started(job string) {
	if v.live != nil {
		v.mu.Lock()
		v.live.begin(job, v.o.Now())
		v.mu.Unlock()
	}
	if v.o.Mode != ModeQuiet && v.o.Verbose > 0 {
		v.lines(job, v.look.paint(styleInfo, v.look.start)+" started\n")
	}
}

// Finished implements JobsView. Why a job did not run is in the table at the end, and on a terminal said when it is known.
func (v *jobLines) Finished(r JobResult) {
	if v.live != nil {
		v.mu.Lock()
		v.live.end(r.Name, r.outcome())
		v.mu.Unlock()
	}
	switch {
	case v.o.Mode == ModeQuiet || r.Attempts == 0 && v.live == nil:
		return
	case r.Attempts == 0:
		text := v.symbol(r.outcome()) + " " + cleanLabel(r.Name) + "  " + string(r.Status)
		if r.Note != "" {
			text += ": " + brief(r.Note)
		}
		v.lines("", text+"\n")
		return
	}
	text := v.symbol(r.outcome()) + " " + string(r.outcome()) + " after " + exact(r.Duration)
	if note := r.remark(); note != "" {
		text += "  " + brief(note)
	}
	v.lines(r.Name, text+"\n")
}

func (v *jobLines) symbol(s JobStatus) string {
	switch s {
	case JobSuccess:
		return v.look.paint(styleGood, v.look.ok)
	case JobFailed:
		return v.look.paint(styleBad, v.look.bad)
	case jobIgnored:
		return v.look.paint(styleWarn, v.look.ok)
	case JobAllowed, jobApart:
		return v.look.paint(styleWarn, v.look.bad)
	default:
		return v.look.paint(styleFaint, v.look.skip)
	}
}

// Ended implements JobsView.
func (v *jobLines) Ended(results []JobResult, took time.Duration) {
	v.mu.Lock()
	text := v.saidOfSeveral() + v.summary(results, took)
	v.mu.Unlock()
	v.lines("", text)
}

// summary is the table of all jobs, and the one fixed line that a pipeline ends with.
func (v *jobLines) summary(results []JobResult, took time.Duration) string {
	counts := map[JobStatus]int{}
	for _, r := range results {
		counts[r.outcome()]++
	}
	quiet := v.o.Mode == ModeQuiet
	var shown []JobResult
	for _, r := range results {
		if r.outcome() == JobSuccess && (quiet || len(results) > maxSummaryRows) || quiet && r.outcome() != JobFailed {
			continue
		}
		shown = append(shown, r)
	}
	var b strings.Builder
	b.WriteString(v.rows(shown))
	if !quiet && len(results) > maxSummaryRows && counts[JobSuccess] > 0 {
		fmt.Fprintf(&b, "%s and %s that succeeded\n", v.symbol(JobSuccess), plural(counts[JobSuccess], "job"))
	}
	if quiet && counts[JobFailed]+counts[JobCancelled] == 0 {
		return b.String()
	}
	b.WriteString(v.lastLine(counts, len(results), took))
	return b.String()
}

func (v *jobLines) rows(results []JobResult) string {
	name, stage, status := 0, 0, 0
	for _, r := range results {
		name = max(name, min(cellWidth(cleanText(r.Name)), maxLabelWidth))
		stage = max(stage, min(cellWidth(cleanText(r.Stage)), maxLabelWidth))
		status = max(status, len(r.outcome()))
	}
	var b strings.Builder
	for _, r := range results {
		took := ""
		if r.Attempts > 0 {
			took = exact(r.Duration)
		}
		line := fmt.Sprintf("%s  %s  %-*s  %6s", padded(r.Name, name), padded(r.Stage, stage), status, string(r.outcome()), took)
		if note := r.remark(); note != "" {
			line += "  " + brief(note)
		}
		if r.Attempts > 1 {
			line += fmt.Sprintf("  (%d attempts)", r.Attempts)
		}
		b.WriteString(v.symbol(r.outcome()) + " " + strings.TrimRight(line, " ") + "\n")
		if r.Status == JobFailed {
			b.WriteString(v.look.annotationLines("    ", v.said[r.Name].errors))
		}
	}
	return b.String()
}

// padded is a name in a column of that many cells.
func padded(text string, width int) string {
	text = cleanLabel(text)
	return text + strings.Repeat(" ", max(0, width-cellWidth(text)))
}

func (v *jobLines) lastLine(counts map[JobStatus]int, total int, took time.Duration) string {
	word, decided := v.look.paint(styleGood, "OK"), counts[JobSuccess]+counts[jobIgnored]
	of := JobSuccess
	switch {
	case counts[JobFailed] > 0:
		word, decided, of = v.look.paint(styleError, "FAILED"), counts[JobFailed], JobFailed
	case counts[JobCancelled] > 0:
		word, decided, of = v.look.paint(styleWarn, "CANCELLED"), counts[JobCancelled], JobCancelled
	}
	text := fmt.Sprintf("%s %d of %s", word, decided, plural(total, "job"))
	if decided == total {
		text = word + " " + plural(total, "job")
	}
	var parts []string
	for _, s := range []JobStatus{JobSuccess, jobIgnored, JobFailed, JobAllowed, jobApart, JobCancelled, JobSkipped, JobManual} {
		if n := counts[s]; n > 0 && s != of {
			word := string(s)
			switch {
			case s == jobApart:
				word = "failed in a child pipeline"
			case s == jobIgnored && n > 1:
				word = "without their images"
			case s == jobIgnored:
				word = "without its image"
			}
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	if parts != nil {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	var all noted
	for _, notes := range v.said {
		all.add(notes.noted)
	}
	return text + " in " + exact(took) + all.text() + "\n"
}

// Close implements JobsView.
func (v *jobLines) Close() error {
	if v.live != nil {
		v.mu.Lock()
		closed := v.live.closed
		v.live.closed = true
		v.mu.Unlock()
		if !closed {
			v.live.stop()
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.live.close()
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.out.err != nil {
		return v.out.err
	}
	return v.err.err
}
