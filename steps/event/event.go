// Package event defines everything that can happen in a run.
//
// The engine emits events, in order, and nothing else: the trace, the terminal, the JSON stream and the gRPC stream are all
// built from them. Events contain no sensitive value in clear text: logs and messages are masked, and a sensitive value is
// replaced by a Redacted one before the event is created.
package event

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// Event is one thing that happened.
type Event struct {
	Seq  int64     // counts from 1, without gaps
	Time time.Time // UTC
	// Step is the ID of the step it happened in: the path of positions from the root ("2.1" is the first step of the second step);
	// "" is the run itself. The steps that components run before the first step (plan.Definition.Pre) are in "0", as "0.1", "0.2";
	// those that they run after the last one (Post) continue the count: "4" after three steps.
	Step string
	Body Body
}

// Sink receives events in order, one at a time. It must not retain Log.Data after it returns.
type Sink interface{ Event(Event) }

// Body is the content of an event; its type is the kind of event.
type Body interface{ Type() string }

// Status is the status of a step or a run.
type Status string

// The statuses.
const (
	Running   Status = "running"
	Success   Status = "success"
	Failure   Status = "failure"
	Cancelled Status = "cancelled"
	Skipped   Status = "skipped"
)

// RunStarted is always the first event.
type RunStarted struct {
	ID string `json:"id"`
	// Continues is the run that this one goes on with; nil for a run that begins with its first step.
	Continues *Continuation `json:"continues,omitempty"`
	Runtime   Runtime       `json:"runtime"`
	WorkDir   string        `json:"work_dir"`
	// FreshWorkDir reports whether the work directory was the run's own: empty when the run started, so that the run created all files in it, or
	// a folder that a runner keeps for jobs. A replay begins in an empty one.
	FreshWorkDir bool `json:"fresh_work_dir,omitempty"`
	// Environment is the environment that was created for the run; nil if unknown.
	Environment *Environment `json:"environment,omitempty"`
	// Identity is the job that the run executes; nil if unknown.
	Identity *Identity `json:"identity,omitempty"`
	// Env is the base environment, which every step of the run gets unless it overrides it.
	Env map[string]string `json:"env"`
	// InheritEnv reports whether components get the whole environment around their steps, whatever their specs request.
	InheritEnv bool `json:"inherit_env,omitempty"`
	// Confine says which steps are confined besides those that ask for it; "" is none.
	Confine plan.Confinement `json:"confine,omitempty"`
	// Job holds the job variables that expressions can read.
	Job map[string]string `json:"job,omitempty"`
	// Secrets maps the names of the run's secrets to a keyed digest of each.
	Secrets map[string]string `json:"secrets,omitempty"`
	// DigestKey is the key of the keyed digests in this run, in hexadecimal form.
	DigestKey string `json:"digest_key,omitempty"`
	// Source is the text that started the run: the list of steps or the reference.
	Source string `json:"source,omitempty"`
	// Component is the component that the run executes.
	Component *plan.Component `json:"component"`
	// Inputs are the inputs of the run's component.
	Inputs map[string]value.Value `json:"inputs,omitempty"`
}

// Continuation is the point at which a run continues that was stopped at a boundary.
type Continuation struct {
	Run    string `json:"run"`    // the ID of the run that the state was taken from
	Before string `json:"before"` // the step that comes next
}

// Runtime is the program that ran the steps, and its platform.
type Runtime struct {
	Version string `json:"version"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// StepStarted is the first event of a step that is not skipped.
type StepStarted struct {
	Name  string    `json:"name"`
	Title string    `json:"title,omitempty"`
	Kind  StepKind  `json:"kind"`
	Ref   string    `json:"ref,omitempty"` // as written, with expressions; "" when inline
	Span  diag.Span `json:"span,omitzero"`
}

// StepKind is the kind of a step.
type StepKind string

// The kinds of step.
const (
	KindComponent StepKind = "component" // a reference, not resolved yet
	KindExec      StepKind = "exec"
	KindScript    StepKind = "script"
	KindSteps     StepKind = "steps"
	KindParallel  StepKind = "parallel"
	KindAwait     StepKind = "await" // waits for background steps, or cancels them
)

// StepResolved follows StepStarted if the step has a reference: it is the result of resolving the reference.
type StepResolved struct {
	Ref    string `json:"ref"`              // as resolved, without expressions
	Dir    string `json:"dir"`              // the directory of the definition file
	File   string `json:"file"`             // its name in that directory
	Digest string `json:"digest,omitempty"` // content digest of that directory, "sha256:…"
	// Origin is where the component was fetched; nil when it is local.
	Origin *plan.Origin `json:"origin,omitempty"`
	// Component is set the first time that a run uses this digest and file.
	Component *plan.Component `json:"component,omitempty"`
}

// Key identifies a component in a run: by the content of its folder and the file in it.
func (r StepResolved) Key() string { return ComponentKey(r.Digest, r.File) }

// ComponentKey is the key of a component with a content digest and a file; "" without a digest.
func ComponentKey(digest, file string) string {
	if digest == "" {
		return ""
	}
	return digest + "/" + file
}

// StepInputs holds the evaluated inputs, environment and secret names of a step.
type StepInputs struct {
	Inputs map[string]value.Value `json:"inputs,omitempty"`
	// Env is what the step's caller and definition set on top of the environment of its list.
	Env map[string]string `json:"env,omitempty"`
	// Secrets are the names of the secrets that were requested and granted.
	Secrets []string `json:"secrets,omitempty"`
	// Permissions are those that were requested and granted, by scope; of an action those that its step grants.
	Permissions map[string]string `json:"permissions,omitempty"`
}

// ExecStarted reports that a process starts. A retried step has one for every attempt.
type ExecStarted struct {
	Attempt int      `json:"attempt"` // counts from 1
	Command []string `json:"command"`
	WorkDir string   `json:"work_dir"`
	// Env holds the variables of the process that are not in, or differ from, RunStarted.Env. Of a home folder of its own it has HOME, and not
	// the variables that lead to folders in it (XDG_…_HOME, GIT_CONFIG_GLOBAL).
	Env map[string]string `json:"env,omitempty"`
	// Unset are the names in RunStarted.Env that the process does not have.
	Unset []string `json:"unset,omitempty"`
	// LogHeld reports whether the log is held back until the process has ended, because only then everything to mask in it is known.
	LogHeld bool `json:"log_held,omitempty"`
	// Confined reports whether the process sees only a part of the machine.
	Confined bool `json:"confined,omitempty"`
}

// Stream is the origin of log data.
type Stream string

// The streams of a process.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// Log is a chunk of a step's log: the masked output of its process, otherwise byte for byte. Chunks may end within a line.
type Log struct {
	Stream Stream `json:"stream"`
	Offset int64  `json:"offset"` // of Data in the step's log, in bytes of both streams together
	Data   []byte `json:"-"`      // see MarshalJSON
}

// ExecFinished reports that the process of the latest ExecStarted ended and left no processes behind.
type ExecFinished struct {
	Attempt  int    `json:"attempt"`
	ExitCode int    `json:"exit_code"`        // -1 when there is none
	Signal   string `json:"signal,omitempty"` // the name of the signal that ended it
	// Program is the file that ran; nil where it is unknown, or this program itself.
	Program *Program `json:"program,omitempty"`
	// Image is that of the container which the process ran: of a container action, or a container step. Nil where there was none.
	Image *containers.StepImage `json:"image,omitempty"`
}

// Program is the file of a program, symbolic links followed.
type Program struct {
	Path   string `json:"path"`
	Digest string `json:"digest,omitempty"` // "sha256:…"; "" when the file could not be read
	// Version is what a known interpreter of the system says that it is, such as "GNU bash, version 5.2.15(1)-release"; "" if nobody asked.
	Version string `json:"version,omitempty"`
	// Interpreter is the program that the first line of the file names (#!); nil if it names none.
	Interpreter *Program `json:"interpreter,omitempty"`
}

// StepRetrying reports that a failed step will run again.
type StepRetrying struct {
	Attempt int           `json:"attempt"` // the one that failed
	Max     int           `json:"max"`     // attempts in all
	Delay   plan.Duration `json:"delay,omitzero"`
	Error   *Error        `json:"error"`
}

// StepFinished is the last event of a step that was started.
type StepFinished struct {
	Status   Status                 `json:"status"`
	Allowed  bool                   `json:"allowed,omitempty"` // the failure is allowed: the list continues
	ExitCode *int                   `json:"exit_code,omitempty"`
	Outputs  map[string]value.Value `json:"outputs,omitempty"`
	Exports  map[string]string      `json:"exports,omitempty"`
	Error    *Error                 `json:"error,omitempty"`
	Duration time.Duration          `json:"duration_ns"`
	LogBytes int64                  `json:"log_bytes"`
}

// StepSkipped is the only event of a step that did not run.
type StepSkipped struct {
	Name   string    `json:"name"`
	Title  string    `json:"title,omitempty"`
	Reason string    `json:"reason"` // for people: `if: inputs.deploy is false`
	Span   diag.Span `json:"span,omitzero"`
}

// Progress reports the progress of a long operation. The last event of an ID has Done set.
type Progress struct {
	ID      string `json:"id"`    // unique in the run
	Title   string `json:"title"` // "fetching gitlab.com/…"
	Current int64  `json:"current"`
	Total   int64  `json:"total,omitempty"` // 0 when not known
	Unit    string `json:"unit,omitempty"`  // "bytes" or a plural noun
	Done    bool   `json:"done,omitempty"`
}

// Warning is a problem that the user should know about and that did not stop the run.
type Warning struct {
	Message    string           `json:"message"`
	Diagnostic *diag.Diagnostic `json:"diagnostic,omitempty"`
	// Machine says that it is about the machine, not the job: another one may have nothing to warn of.
	Machine bool `json:"machine,omitempty"`
}

// Annotation is a message of a step about a position in a file, or about the step itself.
type Annotation struct {
	Level   AnnotationLevel `json:"level"`
	Message string          `json:"message"`
	Title   string          `json:"title,omitempty"`
	// File is the name that the step uses. Lines and columns count from 1; 0 is unknown.
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	EndLine   int    `json:"end_line,omitempty"`
	Column    int    `json:"column,omitempty"`
	EndColumn int    `json:"end_column,omitempty"`
	Code      string `json:"code,omitempty"` // of a compiler's message: "TS2304"
}

// AnnotationLevel is the severity of an annotation.
type AnnotationLevel string

// The levels.
const (
	AnnotationError   AnnotationLevel = "error"
	AnnotationWarning AnnotationLevel = "warning"
	AnnotationNotice  AnnotationLevel = "notice"
)

// Masked says that a text is masked in the events that follow, in logs as well; those before it stay as they are. Texts that a run was started
// with have no such event: RunStarted has the names of secrets.
type Masked struct {
	// Digest is the keyed digest of the text, as Redacted values have it; empty beyond the first hundred of a run, as it takes time.
	Digest string `json:"digest,omitempty"`
}

// Summary is a Markdown text that a step wrote about itself. A step has at most one.
type Summary struct {
	Markdown string `json:"markdown"`
}

// Subjects are the artifacts that a step reports, for the signed statement about the run.
type Subjects struct {
	Subjects []Subject `json:"subjects"`
}

// Subject is an artifact of a step.
type Subject struct {
	Name   string `json:"name"`   // of a file, without its folders, or a reference to an image
	Digest string `json:"digest"` // "sha256:…"
}

// Stopping reports that the run was asked to stop, and how it stops.
type Stopping struct {
	Code   Code          `json:"code,omitempty"` // who asked: one of the kind ErrorCancelled or ErrorTimeout
	Reason string        `json:"reason"`         // for people
	Grace  plan.Duration `json:"grace"`          // how long processes have before they are killed
	Force  bool          `json:"force,omitempty"`
}

// Paused reports that the run is at a boundary and nothing of it is running. It is the last event of a run that continues elsewhere.
type Paused struct {
	Before string `json:"before"` // the step that comes next, as Event.Step names it
}

// Resumed reports that a paused run continues.
type Resumed struct {
	Before string `json:"before"` // as in Paused
}

// RunFinished is always the last event of a run that was not killed and does not continue elsewhere.
type RunFinished struct {
	Status   Status                 `json:"status"`
	Outputs  map[string]value.Value `json:"outputs,omitempty"`
	Error    *Error                 `json:"error,omitempty"`
	ExitCode *int                   `json:"exit_code,omitempty"` // of the step that decided the failure
	Duration time.Duration          `json:"duration_ns"`
	Counts   Counts                 `json:"counts"`
}

// Counts is the number of steps by outcome. A list of steps or a parallel group counts only through its steps.
type Counts struct {
	Success   int `json:"success"`
	Failure   int `json:"failure"` // allowed failures are counted in Allowed instead
	Allowed   int `json:"allowed,omitempty"`
	Cancelled int `json:"cancelled,omitempty"`
	Skipped   int `json:"skipped,omitempty"`
}

// Type is the name of the event in JSON.
func (RunStarted) Type() string   { return "run.started" }
func (StepStarted) Type() string  { return "step.started" }
func (StepResolved) Type() string { return "step.resolved" }
func (StepInputs) Type() string   { return "step.inputs" }
func (ExecStarted) Type() string  { return "exec.started" }
func (Log) Type() string          { return "log" }
func (ExecFinished) Type() string { return "exec.finished" }
func (StepRetrying) Type() string { return "step.retrying" }
func (StepFinished) Type() string { return "step.finished" }
func (StepSkipped) Type() string  { return "step.skipped" }
func (Progress) Type() string     { return "progress" }
func (Preparing) Type() string    { return "job.preparing" }
func (Warning) Type() string      { return "warning" }
func (Annotation) Type() string   { return "step.annotation" }
func (Masked) Type() string       { return "run.masked" }
func (Summary) Type() string      { return "step.summary" }
func (Subjects) Type() string     { return "step.subjects" }
func (Stopping) Type() string     { return "run.stopping" }
func (Paused) Type() string       { return "run.paused" }
func (Resumed) Type() string      { return "run.resumed" }
func (RunFinished) Type() string  { return "run.finished" }

// decoders make an empty body of each type.
var decoders = map[string]func([]byte) (Body, error){
	"run.started":     decode[RunStarted],
	"step.started":    decode[StepStarted],
	"step.resolved":   decode[StepResolved],
	"step.inputs":     decode[StepInputs],
	"exec.started":    decode[ExecStarted],
	"log":             decode[Log],
	"exec.finished":   decode[ExecFinished],
	"step.retrying":   decode[StepRetrying],
	"step.finished":   decode[StepFinished],
	"step.skipped":    decode[StepSkipped],
	"progress":        decode[Progress],
	"job.preparing":   decode[Preparing],
	"warning":         decode[Warning],
	"step.annotation": decode[Annotation],
	"run.masked":      decode[Masked],
	"step.summary":    decode[Summary],
	"step.subjects":   decode[Subjects],
	"run.stopping":    decode[Stopping],
	"run.paused":      decode[Paused],
	"run.resumed":     decode[Resumed],
	"run.finished":    decode[RunFinished],
}

func decode[T Body](data []byte) (Body, error) {
	var body T
	err := json.Unmarshal(data, &body)
	return body, err
}

// envelope is the form of an event in JSON. Body stands in "data".
type envelope struct {
	Seq  int64           `json:"seq"`
	Time time.Time       `json:"time"`
	Type string          `json:"type"`
	Step string          `json:"step,omitempty"`
	Data json.RawMessage `json:"data"`
}

// MarshalJSON writes {"seq":…,"time":…,"type":…,"step":…,"data":{…}}.
func (e Event) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(e.Body)
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{e.Seq, e.Time.UTC(), e.Body.Type(), e.Step, data})
}

// UnmarshalJSON reads what MarshalJSON writes. An unknown type is an error.
func (e *Event) UnmarshalJSON(data []byte) error {
	var env envelope
	if err := json.Unmarshal(data, &env); err != nil {
		return err
	}
	dec, ok := decoders[env.Type]
	if !ok {
		return fmt.Errorf("event %d has the unknown type %q: it was written by a newer version", env.Seq, env.Type)
	}
	body, err := dec(env.Data)
	if err != nil {
		return fmt.Errorf("event %d (%s): %w", env.Seq, env.Type, err)
	}
	*e = Event{Seq: env.Seq, Time: env.Time, Step: env.Step, Body: body}
	return nil
}

// DecodeBody reads the JSON of a body of the given type.
func DecodeBody(typ string, data []byte) (Body, error) {
	dec, ok := decoders[typ]
	if !ok {
		return nil, fmt.Errorf("unknown event type %q", typ)
	}
	return dec(data)
}
