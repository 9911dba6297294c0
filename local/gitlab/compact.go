package gitlab

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

// compact shows the run of a job to a person as the job is written: a step of the catalog is one step, whatever it is made of, and what
// failed stands where the job says it. The trace has everything.
type compact struct {
	to    local.Sink
	job   *keyword.Job
	plain bool              // without the colours of `$ command`
	codes map[string]int    // exit codes of processes of built-in steps, by the step
	names map[string]string // of built-in steps, by the step
}

func newCompact(to local.Sink, job *keyword.Job, plain bool) *compact {
	return &compact{to: to, job: job, plain: plain, codes: map[string]int{}, names: map[string]string{}}
}

// Close implements Sink.
func (c *compact) Close() error { return c.to.Close() }

// builtin returns the built-in step of the job's own that a step is, or is part of; "" when there is none.
func (c *compact) builtin(path string) string {
	for i := range len(path) + 1 {
		if i < len(path) && path[i] != '.' {
			continue
		}
		if _, known := c.names[path[:i]]; known {
			return path[:i]
		}
	}
	return ""
}

// Event implements event.Sink.
func (c *compact) Event(e event.Event) {
	outer := c.builtin(e.Step)
	switch b := e.Body.(type) {
	case event.StepStarted:
		if outer != "" {
			return
		}
		if strings.HasPrefix(b.Ref, session.BuiltinPrefix) {
			c.names[e.Step] = b.Name
			if n := c.node(b.Name); n.Exists() {
				b.Span = n.Span()
				e.Body = b
			}
		}
	case event.StepFinished:
		if outer != "" && outer != e.Step {
			return
		}
		if outer != "" {
			if code, ok := c.codes[outer]; ok && b.Status == event.Failure && b.ExitCode == nil {
				b.ExitCode = &code
			}
			b.Error = c.told(b.Error, c.names[outer], b.ExitCode)
			e.Body = b
		}
	case event.StepSkipped, event.StepRetrying:
		if outer != "" && outer != e.Step {
			return
		}
	case event.ExecFinished:
		if outer != "" {
			c.codes[outer] = b.ExitCode
			e.Step = outer
		}
	case event.StepResolved, event.StepInputs:
		if outer != "" && outer != e.Step {
			return
		}
	case event.Log:
		if c.plain && bytes.Contains(b.Data, echoOn) {
			b.Data = bytes.ReplaceAll(bytes.ReplaceAll(b.Data, echoOn, nil), echoOff, nil)
			e.Body = b
		}
		if outer != "" {
			e.Step = outer
		}
	case event.RunFinished:
		b.Error = c.toldOfRun(b.Error, b.ExitCode)
		e.Body = b
	default:
		if outer != "" {
			e.Step = outer
		}
	}
	c.to.Event(e)
}

// What scripts write before and after the commands that they show.
var (
	echoOn  = []byte("\x1b[32;1m")
	echoOff = []byte("\x1b[0;m")
)

// told is the error of a built-in step that failed in the terms of the job, and not of what the step is made of.
func (c *compact) told(err *event.Error, name string, code *int) *event.Error {
	if err == nil {
		return nil
	}
	out := *session.OfJob(err)
	out.StepName = ""
	if err.Kind == event.ErrorStep && code != nil && *code > 0 {
		out.Message = fmt.Sprintf("%s failed with exit code %d", name, *code)
	}
	if n := c.node(name); len(err.Diagnostics) > 0 && ofCommand(err) { // the command that failed
		out.Diagnostics = slices.Clone(err.Diagnostics)
		out.Diagnostics[0].Message = out.Message
	} else if n.Exists() {
		out.Diagnostics = diag.List{n.Diagnostic(out.Hint, out.Message)}
	}
	return &out
}

// ofCommand reports whether an error came while a command ran, so that its place is that command's. That of any other may be within a built-in step.
func ofCommand(err *event.Error) bool {
	return err.Kind == event.ErrorStep || err.Kind == event.ErrorTimeout || err.Code == event.CodeDiskFull
}

// toldOfRun is told for the error of the run.
func (c *compact) toldOfRun(err *event.Error, code *int) *event.Error {
	if err == nil {
		return nil
	}
	if outer := c.builtin(err.Step); outer != "" {
		return c.told(err, c.names[outer], code)
	}
	out := *session.OfJob(err)
	if err.Kind != event.ErrorStep {
		out.StepName = ""
	}
	return &out
}

// node is where a job says what a step of it does; the zero Node when it says that nowhere.
func (c *compact) node(step string) config.Node {
	get := func(keys ...string) config.Node {
		for _, key := range keys {
			if n := c.job.Node.Get(key); n.Exists() {
				return n
			}
		}
		return config.Node{}
	}
	base := strings.TrimRight(step, "_0123456789")
	switch base {
	case "script":
		return get("script")
	case "after_script":
		return get("after_script")
	case "pre_get_sources":
		return get("hooks")
	case "restore_cache", "save_cache":
		return get("cache")
	case "dotenv":
		return get("artifacts")
	case "release", "pages", "coverage":
		return get(base)
	}
	if strings.HasPrefix(step, "upload_") {
		return get("artifacts", "pages")
	}
	if strings.HasPrefix(step, "secret_") {
		return get("secrets")
	}
	return config.Node{}
}

// shown is the error of a run as a person sees it.
func (c *compact) shown(o *session.Outcome) *event.Error {
	c.names = o.Builtin
	return c.toldOfRun(o.End.Error, o.End.ExitCode)
}
