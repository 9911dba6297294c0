package joblog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/event"
)

// Colors, as gitlab-runner uses them.
const (
	cyan   = "\x1b[0K\x1b[36;1m"
	green  = "\x1b[32;1m"
	yellow = "\x1b[0;33m"
	red    = "\x1b[31;1m"
	reset  = "\x1b[0;m"
)

// builtinPrefix begins the references of the catalog.
const builtinPrefix = "builtin://"

// step is a step that began.
type step struct {
	path    string
	name    string
	kind    event.StepKind
	section string // its name while it is open
	inner   bool   // what a step of the catalog is made of: not shown as steps
	aside   bool   // others run at the same time: its lines begin with its name
	streams map[event.Stream]*source
}

// stage is how GitLab's runner calls a step of a classic job, and its headline.
type stage struct{ section, headline string }

// stages are those of the steps that a classic job is compiled to, by their names up to a number at the end.
var stages = map[string]stage{
	"pre_get_sources":    {"pre_get_sources", "Running pre-get-sources hook"},
	"get_sources":        {"get_sources", "Getting source from Git repository"},
	"post_get_sources":   {"post_get_sources", "Running post-get-sources hook"},
	"restore_cache":      {"restore_cache", "Restoring cache"},
	"download_artifacts": {"download_artifacts", "Downloading artifacts"},
	"script":             {stepScript, `Executing "step_script" stage of the job script`},
	"release":            {"step_release", `Executing "step_release" stage of the job script`},
	"after_script":       {afterScript, "Running after_script"},
	"save_cache":         {"archive_cache", "Saving cache"},
	"upload_artifacts":   {"upload_artifacts", "Uploading artifacts"},
}

// The sections of a job's own commands.
const (
	stepScript  = "step_script"
	afterScript = "after_script"
)

// stageOf returns the stage of a step of the job itself.
func stageOf(name string) (stage, bool) {
	base := strings.TrimRight(name, "_0123456789")
	if s, ok := stages[base]; ok {
		return s, true
	}
	if strings.HasPrefix(name, "upload_") {
		return stages["upload_artifacts"], true
	}
	return stage{}, false
}

// parent returns the path of the step that a step is in; "" is the run.
func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '.'))] }

// within reports whether a step is the one at the other path, or in it.
func within(path, outer string) bool {
	return path == outer || strings.HasPrefix(path, outer+".")
}

// shown returns the step that is shown for a path: the step itself, or the one of the catalog that it is a part of.
func (r *Renderer) shown(path string) *step {
	s := r.steps[path]
	if s == nil { // a run that is one process, or events from the middle of a run
		s = &step{path: path, name: path}
		r.steps[path] = s
	}
	for s.inner {
		s = r.shown(parent(s.path))
	}
	return s
}

// begin takes in the start of a step.
func (r *Renderer) begin(at time.Time, path string, b event.StepStarted) {
	s := &step{path: path, name: plain(b.Title), kind: b.Kind}
	if s.name == "" {
		s.name = plain(b.Name)
	}
	var outer *step
	if up := parent(path); up != "" {
		outer = r.steps[up]
	}
	if old := r.steps[path]; old != nil { // it runs again, in a list that is retried
		r.quiet(old)
	}
	r.steps[path] = s
	if outer != nil {
		// Nothing in a step of the catalog has a section; what is in a step beside others is beside them as well.
		s.inner = outer.inner || outer.kind == catalogKind
		s.aside = outer.aside || outer.kind == event.KindParallel
	}
	if strings.HasPrefix(b.Ref, builtinPrefix) {
		s.kind = catalogKind
	}
	if s.inner || s.aside || r.killed {
		return
	}
	// Steps that still run beside this one lose their sections: sections nest, and do not overlap.
	for n := len(r.open); n > 0 && !within(path, r.open[n-1].path); n = len(r.open) {
		beside := r.open[n-1]
		r.close(at, beside)
		r.moveAside(beside.path)
	}
	known, isStage := stageOf(b.Name)
	headline, collapsed := known.headline, known.section != stepScript && known.section != afterScript
	if !isStage || outer != nil || !strings.HasPrefix(b.Ref, builtinPrefix) && b.Ref != "" {
		known.section, headline = SectionName(b.Name), s.name
		collapsed = s.kind == catalogKind
	}
	r.openSection(at, s, known.section, headline, collapsed && r.opts.CollapseSetup)
}

// catalogKind is the kind of a step of the catalog here.
const catalogKind event.StepKind = "catalog"

// moveAside marks a step and all in it as running beside others.
func (r *Renderer) moveAside(path string) {
	for p, s := range r.steps {
		if within(p, path) {
			s.aside = true
		}
	}
}

// SectionStart is the mark that begins a section of GitLab's job log. The rest of its line is the section's title.
func SectionStart(at time.Time, name string, collapsed bool) string {
	option := ""
	if collapsed {
		option = "[collapsed=true]"
	}
	return fmt.Sprintf("section_start:%d:%s%s\r\x1b[0K", at.Unix(), name, option)
}

// SectionEnd is the mark that ends a section.
func SectionEnd(at time.Time, name string) string {
	return fmt.Sprintf("section_end:%d:%s\r\x1b[0K", at.Unix(), name)
}

// openSection begins a section and says its headline.
func (r *Renderer) openSection(at time.Time, s *step, name, headline string, collapsed bool) {
	r.names[name]++
	if n := r.names[name]; n > 1 {
		name = fmt.Sprintf("%s_%d", name, n)
	}
	s.section = name
	r.open = append(r.open, s)
	if r.opts.Sections {
		r.mark(at, SectionStart(at, name, collapsed))
	}
	r.say(at, cyan+headline+reset+reset+"\n")
}

// close ends the section of a step.
func (r *Renderer) close(at time.Time, s *step) {
	r.quiet(s)
	i := slices.Index(r.open, s)
	if i < 0 {
		return
	}
	r.open = slices.Delete(r.open, i, i+1)
	if r.opts.Sections {
		r.mark(at, SectionEnd(at, s.section))
	}
	s.section = ""
}

// closeAll ends what is open in a step, "" the run, and the step's own section.
func (r *Renderer) closeAll(at time.Time, path string) {
	for n := len(r.open); n > 0 && (path == "" || within(r.open[n-1].path, path)); n = len(r.open) {
		r.close(at, r.open[n-1])
	}
}

// quiet ends the lines of a step.
func (r *Renderer) quiet(s *step) {
	for _, stream := range []event.Stream{event.Stdout, event.Stderr} {
		if from := s.streams[stream]; from != nil {
			r.flush(from)
		}
	}
}

// log takes in what a step wrote.
func (r *Renderer) log(at time.Time, path string, b event.Log) {
	s := r.shown(path)
	from := s.streams[b.Stream]
	if from == nil {
		from = &source{stamp: streamKinds[b.Stream], prefix: func() string { return s.prefix() }}
		if from.stamp == "" {
			from.stamp = streamKinds[event.Stdout]
		}
		if s.streams == nil {
			s.streams = map[event.Stream]*source{}
		}
		s.streams[b.Stream] = from
	}
	r.data(from, at, b.Data)
}

// prefix is what lines of a step that runs beside others begin with.
func (s *step) prefix() string {
	if !s.aside {
		return ""
	}
	return s.name + " | "
}

// end takes in the end of a step.
func (r *Renderer) end(at time.Time, path string, b event.StepFinished) {
	r.ending = r.ending || b.Status != event.Success && !b.Allowed
	s := r.steps[path]
	if s == nil || s.inner {
		return
	}
	r.quiet(s)
	if b.Status == event.Failure && b.Error != nil {
		switch {
		case b.Allowed:
			what := "%s failed, but the job goes on: %s"
			if s.name == afterScript {
				what = "%s failed, but job will continue unaffected: %s" // gitlab-runner's words, which tools look for
			}
			r.warn(at, s, what, s.name, reason(b.Error, b.ExitCode))
		case b.Error.Kind != event.ErrorStep && (b.Error.Step == "" || b.Error.Step == path):
			r.trouble(at, s, b.Error)
		}
	}
	if s.aside {
		status := map[event.Status]string{event.Success: "finished", event.Failure: "failed", event.Cancelled: "was cancelled"}[b.Status]
		r.say(at, s.prefix()+status+"\n")
	}
	if s.section != "" {
		r.closeAll(at, path)
	}
}

// trouble says what went wrong in a step, beyond its exit code. An error whose first diagnostic is the same sentence is said with its place.
func (r *Renderer) trouble(at time.Time, s *step, err *event.Error) {
	lines, rest := []string{err.Message}, err.Diagnostics
	if len(rest) > 0 && rest[0].Message == err.Message {
		lines, rest = []string{rest[0].Error()}, rest[1:]
	}
	for _, d := range rest {
		lines = append(lines, d.Error())
	}
	r.say(at, s.prefix()+red+"ERROR: "+plain(lines[0])+reset+"\n")
	for _, line := range lines[1:] {
		r.say(at, s.prefix()+plain(line)+"\n")
	}
	if err.Hint != "" {
		r.say(at, s.prefix()+"hint: "+plain(err.Hint)+"\n")
	}
	r.troubled = err.Message
}

// warn writes a warning; s may be nil.
func (r *Renderer) warn(at time.Time, s *step, format string, args ...any) {
	prefix := ""
	if s != nil {
		prefix = s.prefix()
	}
	r.say(at, prefix+yellow+"WARNING: "+fmt.Sprintf(format, args...)+reset+"\n")
}

// SectionName makes the name of a section: GitLab takes letters, digits, _, . and -.
func SectionName(name string) string {
	out := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.', c == '-':
			return c
		}
		return '_'
	}, name)
	const most = 100
	if out == "" {
		return "step"
	}
	return out[:min(len(out), most)]
}

// plain makes a text that others chose safe in one line of the runner's: it cannot begin a section, a line or a color.
func plain(text string) string {
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 || c == '\u2028' || c == '\u2029' {
			return ' '
		}
		return c
	}, text))
}
