// Package trace is the record of a run: a document that states what ran, where it came from, its inputs and its results.
//
// A Recorder makes it from the events of a run. While the run goes on the events themselves are kept beside it, a line
// each, so that a run which is killed leaves everything up to that moment. Read reads both. Export turns a trace into
// what other programs and people read. The format is described, field by field, in docs/trace.md.
package trace

import (
	"io"
	"time"

	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// Format names the document format and its version. A change that old readers would misread gets a new version.
const Format = FormatName + "/v1"

// FormatName is the part of Format that every version shares.
const FormatName = "rung.trace"

// How much a step can say about files, so that one that says ten thousand things a second does not make its trace unreadable.
const (
	MaxAnnotations    = 1000     // of one step
	maxAnnotationText = 64 << 10 // of one message, in bytes: what GitHub keeps
)

// Trace is the document. In a file, "logs" follows the fields below: a flat array of chunks that may be far larger than
// memory, so it is read only through Log and Chunks.
type Trace struct {
	Format string `json:"format"`
	// Incomplete says that the run's last event is missing: it was killed, or it is still running.
	Incomplete bool    `json:"incomplete,omitempty"`
	Run        Run     `json:"run"`
	Runtime    Runtime `json:"runtime"`
	// Components holds every definition that a reference resolved to, by Resolved.Key. They carry no spans.
	Components map[string]*plan.Component `json:"components,omitempty"`
	Warnings   []Warning                  `json:"warnings,omitempty"`
	// Steps are the steps of the run's component, in order; the steps inside a step are in its Steps.
	Steps []*Step `json:"steps"`

	logs logSource // nil when there are none
}

// Run is what was run and how it ended.
type Run struct {
	ID     string       `json:"id"`
	Status event.Status `json:"status"` // event.Running when the trace is incomplete
	Error  *event.Error `json:"error,omitempty"`
	// ExitCode is that of the step that decided a failure.
	ExitCode *int                   `json:"exit_code,omitempty"`
	Started  time.Time              `json:"started"`
	Duration time.Duration          `json:"duration_ns"`
	Counts   event.Counts           `json:"counts"`
	Inputs   map[string]value.Value `json:"inputs,omitempty"`
	Outputs  map[string]value.Value `json:"outputs,omitempty"`
	Stopping *Stopping              `json:"stopping,omitempty"` // the last request to stop, if there was one
	// Continues is the run that this one went on with, from its state; nil for a run that began with its first step.
	Continues *event.Continuation `json:"continues,omitempty"`
	Pauses    []Pause             `json:"pauses,omitempty"`
	// Parts are the runs that a joined trace was made of, in order.
	Parts   []Part `json:"parts,omitempty"`
	WorkDir string `json:"work_dir"`
	// FreshWorkDir says that the work directory was the run's own, and empty when the run began or one that a runner keeps.
	FreshWorkDir bool `json:"fresh_work_dir,omitempty"`
	// Environment is the place that was made for the run; nil where nobody said.
	Environment *event.Environment `json:"environment,omitempty"`
	// Identity is the job that was run; nil if nobody said. Trace.Identity also knows that of older traces.
	Identity *event.Identity `json:"identity,omitempty"`
	// Env is the base environment: what every process of the run was given unless its attempt says otherwise.
	Env map[string]string `json:"env"`
	// InheritEnv says that components got the whole environment around their steps (--env-policy inherit).
	InheritEnv bool `json:"inherit_env,omitempty"`
	// Confine says which steps are confined besides those that ask for it (--confine); "" is none.
	Confine plan.Confinement  `json:"confine,omitempty"`
	Job     map[string]string `json:"job,omitempty"` // the job variables
	// Secrets are keyed digests of the run's secrets, by name; DigestKey, in hexadecimal, is their key.
	Secrets   map[string]string `json:"secrets,omitempty"`
	DigestKey string            `json:"digest_key,omitempty"`
	Source    string            `json:"source,omitempty"` // the text that the run was started with
	Component *plan.Component   `json:"component"`        // what Source means, without spans
}

// Stopping is a request to stop the run.
type Stopping struct {
	Time   time.Time  `json:"time"`
	Code   event.Code `json:"code,omitempty"` // who asked
	Reason string     `json:"reason"`
	Force  bool       `json:"force,omitempty"`
}

// Pause is a stop at the boundary before a step.
type Pause struct {
	Before  string    `json:"before"` // the ID of the step
	Time    time.Time `json:"time"`
	Resumed time.Time `json:"resumed,omitzero"` // zero where the trace ends there
}

// Part is one of the runs that a joined trace was made of.
type Part struct {
	ID       string        `json:"id"`
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"duration_ns"`
	Runtime  Runtime       `json:"runtime"`
	// Folders are the run's own, as Trace.OwnFolders returns them.
	Folders []string `json:"folders,omitempty"`
}

// Runtime is the program that ran the steps, and what it ran on.
type Runtime struct {
	Version string `json:"version"`
	Digest  string `json:"digest,omitempty"` // of the program's file, "sha256:…"
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// Warning is something the user should know that did not stop the run.
type Warning struct {
	Step       string           `json:"step,omitempty"`
	Message    string           `json:"message"`
	Diagnostic *diag.Diagnostic `json:"diagnostic,omitempty"`
	// Machine says that it is about the machine, not the job: it is not compared.
	Machine bool      `json:"machine,omitempty"`
	Time    time.Time `json:"time,omitzero"`
}

// Step is one step that was started or skipped.
type Step struct {
	// ID is the path of positions from the root ("2.1" is the first step of the second one). When a list of steps runs again
	// because it is retried, what its steps do the second time has IDs that end in "#2", and so on. What
	// components prepare before the first step is in a step "0", and what they clean up behind the last one.
	ID    string         `json:"id"`
	Name  string         `json:"name"`
	Title string         `json:"title,omitempty"`
	Kind  event.StepKind `json:"kind,omitempty"` // "" when it was skipped
	Span  diag.Span      `json:"span,omitzero"`  // where it is written
	Ref   string         `json:"ref,omitempty"`  // as written, with expressions; "" when inline
	// Resolved is what Ref turned out to be.
	Resolved *Resolved `json:"resolved,omitempty"`
	// Definition is the step's own when it is written inline or has no digest; else it is Components[Resolved.Key()]. Of an
	// inline list it leaves out the steps, which are under Steps and in the component that the list is part of.
	Definition *plan.Component        `json:"definition,omitempty"`
	Inputs     map[string]value.Value `json:"inputs,omitempty"`
	// Env is what the step's caller and definition set, over the environment of the list it is in.
	Env     map[string]string `json:"env,omitempty"`
	Secrets []string          `json:"secrets,omitempty"` // names of those it requested and was granted
	// Permissions are what it requested and was granted to do with the tokens of the job, by scope.
	Permissions map[string]string      `json:"permissions,omitempty"`
	Attempts    []Attempt              `json:"attempts,omitempty"`
	Outputs     map[string]value.Value `json:"outputs,omitempty"`
	Exports     map[string]string      `json:"exports,omitempty"`
	// Annotations are what the step said about places in files, and about itself, over all its attempts. MaxAnnotations are kept;
	// AnnotationsLeftOut counts the others.
	Annotations        []event.Annotation `json:"annotations,omitempty"`
	AnnotationsLeftOut int                `json:"annotations_left_out,omitempty"`
	Summary            string             `json:"summary,omitempty"`  // what the step wrote about itself for people, in Markdown
	Subjects           []event.Subject    `json:"subjects,omitempty"` // what the step says that it made

	ExitCode *int          `json:"exit_code,omitempty"`
	Status   event.Status  `json:"status"`                // event.Running when the trace ends before the step does
	Allowed  bool          `json:"allowed,omitempty"`     // it failed, and was allowed to
	Skipped  string        `json:"skip_reason,omitempty"` // for people
	Error    *event.Error  `json:"error,omitempty"`
	Started  time.Time     `json:"started,omitzero"`
	Duration time.Duration `json:"duration_ns"`
	Log      *LogSummary   `json:"log,omitempty"` // nil when nothing was logged
	Steps    []*Step       `json:"steps,omitempty"`
}

// Resolved is what a reference turned out to be.
type Resolved struct {
	Ref    string `json:"ref"` // without expressions
	Dir    string `json:"dir"`
	File   string `json:"file"`
	Digest string `json:"digest,omitempty"` // content digest of the folder
	// Origin is where the component was fetched; nil when it is local.
	Origin *plan.Origin `json:"origin,omitempty"`
}

// Key is the component's in Trace.Components; "" when it has no digest.
func (r *Resolved) Key() string { return event.ComponentKey(r.Digest, r.File) }

// Attempt is one process that a step started.
type Attempt struct {
	Command []string `json:"command"`
	WorkDir string   `json:"work_dir"`
	// Env is what the process was given beyond, or different from, Run.Env; Unset is what of Run.Env it was not given.
	Env   map[string]string `json:"env,omitempty"`
	Unset []string          `json:"unset,omitempty"`
	// LogHeld says that the log came when the process had ended, because only then all that must be masked in it was known.
	LogHeld bool `json:"log_held,omitempty"`
	// Confined says that the process saw only a part of the machine.
	Confined bool `json:"confined,omitempty"`
	// ExitCode is nil while the process runs, -1 when it ended without one.
	ExitCode *int   `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"`
	// Program is the file that ran: its path, and its digest. Nil where it is unknown, or the step-runner's own (see Runtime).
	Program *event.Program `json:"program,omitempty"`
	// Image is that of the container that the process ran, of a container action or step.
	Image    *containers.StepImage `json:"image,omitempty"`
	Error    *event.Error          `json:"error,omitempty"` // why the step ran again after this attempt
	Started  time.Time             `json:"started"`
	Duration time.Duration         `json:"duration_ns"`
}

// LogSummary says what a step's log is without holding it.
type LogSummary struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // of the bytes of both streams in order, in hexadecimal
	Lines  int64  `json:"lines"`  // a last one without a line end counts
}

// Chunk is a piece of one step's log. Chunks of a step follow each other without gaps.
type Chunk struct {
	Step   string
	Stream event.Stream
	Offset int64     // where Data begins in the step's log, in bytes, both streams counted together
	Time   time.Time // of its first byte
	Data   []byte    // valid until the function that was given the chunk returns
}

// logSource reads the chunks of a trace from where they are kept.
type logSource interface {
	chunks(yield func(Chunk) error) error
}

// Chunks calls yield with every chunk of every log, in order, and stops at its first error. It streams: memory does not
// grow with the logs. They are held against the digests that the trace had of them when it was read: the error of those that are not what
// was recorded, which comes last, is ErrLogChanged.
func (t *Trace) Chunks(yield func(Chunk) error) error {
	if t.logs == nil {
		return nil
	}
	return t.logs.chunks(yield)
}

// Log writes the log of one step to w, byte for byte, both streams in the order in which they were recorded. A step without
// a log writes nothing.
func (t *Trace) Log(stepID string, w io.Writer) error {
	return t.Chunks(func(c Chunk) error {
		if c.Step != stepID {
			return nil
		}
		_, err := w.Write(c.Data)
		return err
	})
}

// Walk calls visit with every step, parents before their children, in order. Depth is 0 for the steps of the run itself.
func (t *Trace) Walk(visit func(s *Step, depth int)) { walk(t.Steps, 0, visit) }

func walk(steps []*Step, depth int, visit func(*Step, int)) {
	for _, s := range steps {
		visit(s, depth)
		walk(s.Steps, depth+1, visit)
	}
}

// Find returns the step with the given ID, nil when there is none.
func (t *Trace) Find(id string) *Step {
	var found *Step
	t.Walk(func(s *Step, _ int) {
		if s.ID == id {
			found = s
		}
	})
	return found
}
