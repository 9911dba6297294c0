package gitlab

import (
	"bytes"
	"fmt"
	"strings"

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
	plain bool // without the colours of `$ command`
	inner map[string]bool
	codes map[string]int // exit codes of processes of built-in steps, by the step
	names map[string]string
}

func newCompact(to local.Sink, job *keyword.Job, plain bool) *compact {
	return &compact{to: to, job: job, plain: plain, inner: map[string]bool{}, codes: map[string]int{}, names: map[string]string{}}
}

// Close implements Sink.
func (c *compact) Close() error { return c.to.Close() }

// builtin returns the built-in step that a step is, or is part of; "" when it is none.
func (c *compact) builtin(path string) string {
	for p := path; p != ""; p = p[:max(0, strings.LastIndexByte(p, '.'))] {
		if c.inner[p] {
			return p
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
		if strings.HasPrefix(b.Ref, local.BuiltinPrefix) {
			c.inner[e.Step], c.names[e.Step] = true, b.Name
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
	case event.Stopping:
		b.Reason = strings.TrimPrefix(b.Reason, byClient)
		e.Body = b
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

// byClient is what a step-runner says of a run that its client stops, which here is this program.
const byClient = "cancelled by the client: "

// What scripts write before and after the commands that they show.
var (
	echoOn  = []byte("\x1b[32;1m")
	echoOff = []byte("\x1b[0;m")
)

// told says of a built-in step that failed what the job says there, and not what the step is made of.
func (c *compact) told(err *event.Error, name string, code *int) *event.Error {
	if err == nil {
		return nil
	}
	out := *err
	switch {
	case err.Kind == event.ErrorStep && code != nil && *code > 0:
		out.Message = fmt.Sprintf("%s failed with exit code %d", name, *code)
	case err.Kind == event.ErrorTimeout:
		out.Message = strings.Replace(out.Message, "the run timed out", "the job timed out", 1)
	}
	out.Diagnostics = nil
	if n := c.node(name); n.Exists() {
		out.Diagnostics = diag.List{n.Diagnostic(out.Hint, out.Message)}
	} else if err.Kind != event.ErrorStep {
		out.Diagnostics = err.Diagnostics
	}
	return &out
}

// toldOfRun is told for the error of the run, whose message begins with the name of the step.
func (c *compact) toldOfRun(err *event.Error, code *int) *event.Error {
	if err == nil {
		return nil
	}
	rest, ok := strings.CutPrefix(err.Message, `step "`)
	if !ok {
		out := *err
		out.Message = strings.Replace(err.Message, byClient, "", 1)
		return &out
	}
	path, message, _ := strings.Cut(rest, `"`)
	if err.Kind != event.ErrorStep {
		out := *err
		message = strings.Replace(message, byClient, "", 1)
		out.Message = strings.Replace(strings.TrimPrefix(message, ": "), "the run timed out", "the job timed out", 1)
		err = &out
	}
	name, _, _ := strings.Cut(path, "/")
	for _, known := range c.names {
		if known == name {
			return c.told(err, name, code)
		}
	}
	return err
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
func (c *compact) shown(o *local.Outcome) *event.Error {
	c.names = o.Builtin
	return c.toldOfRun(o.End.Error, o.End.ExitCode)
}
