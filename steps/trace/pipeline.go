package trace

import (
	"bufio"
	"cmp"
	_ "embed" // the page's style and search
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/steps/event"
)

//go:embed page/pipeline.css
var pipelineCSS string

//go:embed page/pipeline.js
var pipelineJS string

// Sizes of the graph, in CSS pixels.
const (
	graphColumn, graphRow = 220, 44
	graphWidth, graphBox  = 170, 30
	graphMargin           = 12
	graphName             = 17 // characters
)

// pipelineJob is a trace on the page of a pipeline.
type pipelineJob struct {
	*Trace
	id     event.Identity
	name   string
	anchor string
	column int
	row    int
	logs   map[string]*pageLog
}

// WritePipeline writes one page of all jobs of a pipeline, a trace each: their graph, their timeline and their logs. Like that of one
// trace it needs nothing else. Its one script is the search; all the rest works without.
func WritePipeline(w io.Writer, traces []*Trace) error {
	p := &pipelinePage{out: bufio.NewWriterSize(w, maxChunk)}
	for _, t := range traces {
		logs, err := t.pageLogs(maxPageLogs / len(traces))
		if err != nil {
			return err
		}
		id := t.Identity()
		p.jobs = append(p.jobs, &pipelineJob{Trace: t, id: id, name: cmp.Or(id.Job, t.Title()), logs: logs})
	}
	p.arrange()
	style := inBothThemes(pageCSS) + pipelineCSS
	fmt.Fprintf(p.out, `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; base-uri 'none'; form-action 'none'; style-src %s; script-src %s">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>%s</title>
<style>%s</style>
</head>
<body class="pipeline">
`, sourceHash(style), sourceHash(pipelineJS), xmlText(p.title()+" · "+string(p.status())), style)
	p.header()
	p.out.WriteString("<main>\n")
	p.graph()
	p.timeline()
	for _, j := range p.jobs {
		p.job(j)
	}
	p.out.WriteString("</main>\n<script>" + pipelineJS + "</script>\n</body>\n</html>\n")
	return p.out.Flush()
}

// inBothThemes makes the dark theme of a style, which a script chooses elsewhere, that of readers who prefer it.
func inBothThemes(style string) string {
	const chosen = `:root[data-theme="dark"] {`
	before, rest, _ := strings.Cut(style, chosen)
	dark, after, _ := strings.Cut(rest, "}")
	return before + "@media (prefers-color-scheme: dark) { :root {" + dark + "} }" + after
}

type pipelinePage struct {
	out  *bufio.Writer
	jobs []*pipelineJob
}

// arrange gives every job its place in the graph: a column for each stage, or else after all that it needs.
func (p *pipelinePage) arrange() {
	slices.SortStableFunc(p.jobs, func(a, b *pipelineJob) int { return a.Run.Started.Compare(b.Run.Started) })
	var stages []int
	staged := false
	for _, j := range p.jobs {
		staged = staged || j.id.StageIndex > 0
		stages = append(stages, j.id.StageIndex)
	}
	slices.Sort(stages)
	stages = slices.Compact(stages)
	for _, j := range p.jobs { // what a job needs has started before it
		j.column = 0
		for _, need := range p.needs(j) {
			j.column = max(j.column, need.column+1)
		}
		if staged {
			j.column = slices.Index(stages, j.id.StageIndex)
		}
	}
	slices.SortStableFunc(p.jobs, func(a, b *pipelineJob) int { return cmp.Compare(a.column, b.column) })
	rows := map[int]int{}
	for i, j := range p.jobs {
		j.anchor = "job-" + strconv.Itoa(i+1)
		j.row = rows[j.column]
		rows[j.column]++
	}
}

// needs returns the jobs on the page that a job needs.
func (p *pipelinePage) needs(j *pipelineJob) (out []*pipelineJob) {
	for _, other := range p.jobs {
		if other != j && (slices.Contains(j.id.Needs, other.id.Job) || other.id.Group != "" && slices.Contains(j.id.Needs, other.id.Group)) {
			out = append(out, other)
		}
	}
	return out
}

// each returns what the jobs say of something, without doubles.
func (p *pipelinePage) each(of func(event.Identity) string) string {
	var texts []string
	for _, j := range p.jobs {
		if text := of(j.id); text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ", ")
}

// pipelineTitle names the pipeline whose jobs have these traces.
func pipelineTitle(traces []*Trace) string {
	p := &pipelinePage{}
	for _, t := range traces {
		p.jobs = append(p.jobs, &pipelineJob{Trace: t, id: t.Identity()})
	}
	return p.title()
}

func (p *pipelinePage) title() string {
	parts := []string{
		cmp.Or(p.each(func(id event.Identity) string { return id.Pipeline }), "Pipeline"),
		p.each(func(id event.Identity) string { return id.Project }), p.each(func(id event.Identity) string { return id.Ref }),
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

// status is that of the job that ended worst. One that was allowed to fail did not end badly.
func (p *pipelinePage) status() event.Status {
	var traces []*Trace
	for _, j := range p.jobs {
		traces = append(traces, j.Trace)
	}
	return pipelineStatus(traces)
}

func pipelineStatus(traces []*Trace) event.Status {
	for _, status := range []event.Status{event.Running, event.Failure, event.Cancelled} {
		if slices.ContainsFunc(traces, func(t *Trace) bool { return t.Run.Status == status && !t.Allowed() }) {
			return status
		}
	}
	return event.Success
}

// standing is the class of how a job ended: its status, or "allowed".
func (j *pipelineJob) standing() string {
	if j.Allowed() {
		return "allowed"
	}
	return string(j.Run.Status)
}

// span is when the first job began and the last one ended.
func (p *pipelinePage) span() (from, to time.Time) {
	for _, j := range p.jobs {
		if from.IsZero() || j.Run.Started.Before(from) {
			from = j.Run.Started
		}
		if end := j.Run.Started.Add(j.Run.Duration); end.After(to) {
			to = end
		}
	}
	return from, to
}

// statusBadge shows a status as a text in the colours of a class.
func statusBadge(s event.Status, class, text string) string {
	return fmt.Sprintf(`<span class="badge s-%s"><span aria-hidden="true">%s</span>%s</span>`, class, symbols[s], text)
}

func (p *pipelinePage) header() {
	from, to := p.span()
	fmt.Fprintf(p.out, "<header id=\"run\"><div class=\"run-top\">%s<h1>%s</h1></div>\n<div class=\"facts\">", statusBadge(p.status(), string(p.status()), string(p.status())),
		xmlText(cmp.Or(p.each(func(id event.Identity) string { return id.Pipeline }), "Pipeline")))
	for _, fact := range [][2]string{
		{"project", p.each(func(id event.Identity) string { return id.Project })}, {"ref", p.each(func(id event.Identity) string { return id.Ref })},
		{"commit", p.each(func(id event.Identity) string { return id.Commit })},
		{"jobs", strconv.Itoa(len(p.jobs))}, {"time", shortDuration(to.Sub(from))}, {"started", from.UTC().Format("2006-01-02 15:04:05 UTC")},
	} {
		if fact[1] != "" {
			fmt.Fprintf(p.out, "<span>%s <b>%s</b></span>", fact[0], xmlText(fact[1]))
		}
	}
	p.out.WriteString(`</div></header>
<div id="find" role="search" hidden><label class="search"><span class="visually-hidden">Search jobs and logs</span>
<input id="search" type="search" placeholder="Search jobs and logs" autocomplete="off" spellcheck="false" aria-keyshortcuts="/"><kbd aria-hidden="true">/</kbd></label>
<span id="found" role="status"></span></div>
`)
}

// graph draws the jobs and what they need.
func (p *pipelinePage) graph() {
	columns, rows := 0, 0
	for _, j := range p.jobs {
		columns, rows = max(columns, j.column+1), max(rows, j.row+1)
	}
	at := func(j *pipelineJob) (x, y int) {
		return graphMargin + j.column*graphColumn, graphMargin + j.row*graphRow
	}
	width, height := 2*graphMargin+(columns-1)*graphColumn+graphWidth, 2*graphMargin+(rows-1)*graphRow+graphBox
	fmt.Fprintf(p.out, "<section aria-label=\"Graph\"><h2>Graph</h2><div class=\"graph\" tabindex=\"0\" role=\"group\" aria-label=\"Jobs and what they need\">"+
		"<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %[1]d %[2]d\">\n", width, height)
	for _, j := range p.jobs {
		x, y := at(j)
		for _, need := range p.needs(j) {
			nx, ny := at(need)
			fmt.Fprintf(p.out, `<path d="M%d %d C%d %d %d %d %d %d"/>`+"\n", nx+graphWidth, ny+graphBox/2,
				nx+graphWidth+graphColumn/8, ny+graphBox/2, x-graphColumn/8, y+graphBox/2, x, y+graphBox/2)
		}
	}
	for _, j := range p.jobs {
		x, y := at(j)
		fmt.Fprintf(p.out, `<a href="#%s"><title>%s, %s</title><rect x="%d" y="%d" width="%d" height="%d" rx="6"/>`,
			j.anchor, xmlText(j.name), j.ended(), x, y, graphWidth, graphBox)
		fmt.Fprintf(p.out, `<text class="s-%s" x="%d" y="%d">%s</text><text x="%d" y="%[3]d">%[6]s</text></a>`+"\n",
			j.standing(), x+8, y+20, symbols[j.Run.Status], x+26, xmlText(cut(oneLine(j.name), graphName)))
	}
	p.out.WriteString("</svg></div></section>\n")
}

// timeline shows when each job ran.
func (p *pipelinePage) timeline() {
	from, to := p.span()
	whole := max(to.Sub(from), time.Millisecond)
	share := func(d time.Duration) string {
		return strconv.FormatFloat(100*float64(d)/float64(whole), 'f', 3, 64) + "%"
	}
	p.out.WriteString("<section aria-label=\"Timeline\"><h2>Timeline</h2>\n")
	for _, j := range p.jobs {
		fmt.Fprintf(p.out, `<div class="time"><a href="#%s">%s</a><span class="num">%s</span><svg class="s-%s" aria-hidden="true"><rect x="%s" y="4" width="%s" height="10" rx="3"/></svg></div>`+"\n",
			j.anchor, xmlText(j.name), shortDuration(j.Run.Duration), j.standing(), share(j.Run.Started.Sub(from)), share(j.Run.Duration))
	}
	p.out.WriteString("</section>\n")
}

// job writes why a job failed, and the logs of its steps.
func (p *pipelinePage) job(j *pipelineJob) {
	open := ""
	if j.Run.Status == event.Failure && !j.Allowed() || j.Incomplete || len(p.jobs) == 1 {
		open = " open"
	}
	fmt.Fprintf(p.out, "<details class=\"box\" id=\"%s\"%s><summary><h2>%s</h2>%s<span class=\"count\">%s</span></summary>\n",
		j.anchor, open, xmlText(j.name), statusBadge(j.Run.Status, j.standing(), j.ended()), shortDuration(j.Run.Duration))
	if image := j.ignoredImage(); image != "" {
		fmt.Fprintf(p.out, "<div class=\"notice warn\">%s</div>\n", xmlText(ignoredText(image)))
	}
	if j.Run.Error != nil {
		fmt.Fprintf(p.out, "<div class=\"notice bad\">%s", xmlText(j.Run.Error.Error()))
		for _, d := range j.Run.Error.Diagnostics {
			fmt.Fprintf(p.out, "<pre>%s</pre>", xmlText(d.Error()))
		}
		p.out.WriteString("</div>\n")
	}
	j.Walk(func(s *Step, _ int) {
		log := j.logs[s.ID]
		if log == nil {
			return
		}
		fmt.Fprintf(p.out, "<h3><span class=\"s-%s\" aria-hidden=\"true\">%s</span> %s</h3>\n<pre class=\"code\" tabindex=\"0\" data-missing=\"%d\">",
			s.Status, symbols[s.Status], xmlText(strings.Join(j.names(s), " / ")), log.dropped)
		p.text(log.head)
		if log.dropped > 0 {
			fmt.Fprintf(p.out, "\n… %d bytes of this log are not in the page. The trace has all of it. …\n", log.dropped)
		}
		p.text(log.tail)
		p.out.WriteString("</pre>\n")
	})
	p.out.WriteString("</details>\n")
}

// text writes a part of a log without colours.
func (p *pipelinePage) text(part pagePart) {
	var plain plainer
	for _, text := range part.texts {
		p.out.WriteString(xmlText(string(plain.append(nil, text.data))))
	}
}
