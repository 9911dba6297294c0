package dev

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rungci/rung/dev/fakegitlab"
	"github.com/rungci/rung/internal/cleantext"
)

// display shows a pipeline as it goes on, a line for each thing that happens.
type display struct {
	out    io.Writer
	color  bool
	quiet  bool
	server *fakegitlab.Server
	width  int
	alone  bool // there is one job: its lines need no name
	seen   map[string]*seen
}

// seen is what was shown of a job.
type seen struct {
	state  fakegitlab.State
	id     int64
	tries  int
	offset int
}

// begin shows what there is.
func (d *display) begin(v fakegitlab.PipelineView) {
	count := 0
	for _, stage := range v.Stages {
		for _, j := range stage.Jobs {
			d.width, count = max(d.width, len([]rune(j.Name))), count+1
		}
	}
	d.alone = count == 1
	name := ""
	if v.Name != "" {
		name = " " + cleantext.Line(v.Name)
	}
	what := "jobs"
	if d.alone {
		what = "job"
	}
	fmt.Fprintf(d.out, "Pipeline %d%s for %s at %.8s", v.ID, name, cleantext.Line(v.Ref), v.Commit)
	if v.Changed {
		fmt.Fprint(d.out, ", with what is not committed")
	}
	fmt.Fprintf(d.out, ": %d %s\n", count, what)
}

// symbols are how states look.
var symbols = map[fakegitlab.State]struct{ symbol, color string }{
	fakegitlab.Success: {"✓", "32"}, fakegitlab.Failed: {"✗", "31"}, fakegitlab.Canceled: {"✗", "33"}, fakegitlab.Skipped: {"–", "2"},
	fakegitlab.Manual: {"▸", "36"}, fakegitlab.Running: {"▸", "1"}, fakegitlab.Waiting: {"…", "2"}, fakegitlab.Scheduled: {"…", "2"}, fakegitlab.Canceling: {"…", "33"},
}

func (d *display) paint(color, text string) string {
	if !d.color {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// show shows what has changed.
func (d *display) show(v fakegitlab.PipelineView) {
	for _, stage := range v.Stages {
		for _, j := range stage.Jobs {
			d.job(j)
		}
	}
}

func (d *display) job(j fakegitlab.JobView) {
	was := d.seen[j.Name]
	if was == nil {
		was = &seen{}
		d.seen[j.Name] = was
	}
	if j.ID != was.id { // another attempt
		if was.id != 0 {
			d.logs(j.Name, was, true)
			d.line(j.Name, fmt.Sprintf("%s attempt %d failed, trying again", d.paint("33", "↻"), was.tries))
		}
		was.id, was.offset, was.tries = j.ID, 0, j.Attempts
	}
	failed := j.State == fakegitlab.Failed
	if j.State == fakegitlab.Running && was.state != fakegitlab.Running {
		d.line(j.Name, d.paint("1", "▸ running"))
	}
	if !d.quiet || failed && was.state != fakegitlab.Failed {
		d.logs(j.Name, was, j.State.Over())
	}
	if j.State != was.state {
		was.state = j.State
		if text := describe(j); text != "" {
			s := symbols[j.State]
			d.line(j.Name, d.paint(s.color, s.symbol+" "+text))
		}
	}
}

// describe says how a job is; "" for what is not worth a line.
func describe(j fakegitlab.JobView) string {
	text := string(j.State)
	switch j.State {
	case fakegitlab.Created, fakegitlab.Pending, fakegitlab.Running:
		return ""
	case fakegitlab.Manual:
		text = fmt.Sprintf("manual: --manual %q starts it", j.Name)
	case fakegitlab.Success, fakegitlab.Failed, fakegitlab.Canceled:
		if j.Duration > 0 {
			text += " in " + j.Duration.Round(10*time.Millisecond).String()
		}
	}
	if j.State == fakegitlab.Failed {
		text += ": " + j.Reason
		if j.ExitCode != 0 {
			text += fmt.Sprintf(", exit code %d", j.ExitCode)
		}
		if j.Allowed {
			text += ", which is allowed"
		}
	}
	if j.Note != "" {
		text += ": " + j.Note
	}
	return text
}

// logs shows what is new of a log: complete lines, and at the end what is left.
func (d *display) logs(name string, was *seen, over bool) {
	if was.id == 0 {
		return
	}
	part, _ := d.server.Log(was.id, was.offset)
	if over && len(part) > 0 && part[len(part)-1] != '\n' {
		part = append(part, '\n')
	}
	lines, read := fakegitlab.Lines(part, d.color)
	was.offset += read
	for _, text := range lines {
		if d.color {
			text += "\x1b[0m"
		}
		d.line(name, text)
	}
}

// line prints a line of a job.
func (d *display) line(name, text string) {
	if d.alone {
		fmt.Fprintln(d.out, text)
		return
	}
	name = cleantext.Line(name)
	pad := strings.Repeat(" ", max(0, d.width-len([]rune(name))))
	for part := range strings.Lines(text + "\n") {
		fmt.Fprintf(d.out, "%s %s\n", d.paint("36", name+pad+" |"), strings.TrimSuffix(part, "\n"))
	}
}

// end sums up.
func (d *display) end(v fakegitlab.PipelineView) {
	s := symbols[v.State]
	text := "Pipeline " + string(v.State)
	if v.State == fakegitlab.Manual {
		text = "Pipeline waits for a manual job"
	}
	fmt.Fprintln(d.out, d.paint(s.color, s.symbol+" "+text))
}
