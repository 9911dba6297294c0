package client

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	planv1 "github.com/rungci/rung/api/rung/plan/v1"
	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/plan/planpb"
	"github.com/rungci/rung/steps/value"
)

// Request is a job to run. It needs an ID, and either Text or Component.
type Request struct {
	ID        string
	Text      string          // YAML: a list of steps, or a definition
	TextName  string          // what diagnostics call Text; empty is "steps"
	Component *plan.Component // instead of Text
	WorkDir   string          // absolute, on the server; empty is the server's own
	Env       map[string]string
	Variables []Variable
	Secrets   map[string]string
	Inputs    map[string]value.Value
	Timeout   time.Duration // 0 is the server's limit
	Grace     time.Duration // 0 is the server's default, less than 0 is none
	Lock      string        // the text of a lock file, in the place of the server's own
	From      *Origin       // where the run goes on; nil begins with the first step
	Paused    bool          // the run stops before its first step, or where it goes on
	// LogFile is an empty file for the log, where the server shares a file system with this process: it appends the log to that file and
	// leaves it in place. Empty is a file of the server's own. See StepOptions.LogFile.
	LogFile string
	// InheritEnv gives every component the whole environment around its step.
	InheritEnv bool
	// Untraced says that no trace is kept of the run: the events do not tell which files ran as programs.
	Untraced bool
	// Confine says which steps are confined besides those that ask for it; "" is none.
	Confine plan.Confinement
}

// Variable is a job variable.
type Variable struct {
	Name, Value string
	Masked      bool // the value is sensitive
	File        bool // the value is put into a file, and the variable holds its path
}

func (r *Request) message() (*runnerv1.RunRequest, error) {
	out := &runnerv1.RunRequest{Id: r.ID, WorkDir: r.WorkDir, Env: r.Env, Secrets: r.Secrets, Lock: r.Lock, LogFile: r.LogFile, InheritEnv: r.InheritEnv, Untraced: r.Untraced, Confine: string(r.Confine)}
	if r.Component != nil {
		component, err := planpb.ToProto(r.Component)
		if err != nil {
			return nil, fmt.Errorf("sending the component: %w", err)
		}
		out.Steps = &runnerv1.RunRequest_Component{Component: component}
	} else {
		out.Steps = &runnerv1.RunRequest_Text{Text: &runnerv1.Text{Name: r.TextName, Yaml: r.Text}}
	}
	for _, v := range r.Variables {
		out.Variables = append(out.Variables, &runnerv1.Variable{Name: v.Name, Value: v.Value, Masked: v.Masked, File: v.File})
	}
	for name, v := range r.Inputs {
		converted, err := planpb.ToValue(v)
		if err != nil {
			return nil, fmt.Errorf("sending the input %q: %w", name, err)
		}
		if out.Inputs == nil {
			out.Inputs = map[string]*planv1.Value{}
		}
		out.Inputs[name] = converted
	}
	if r.From != nil {
		out.From = &runnerv1.Origin{State: &runnerv1.RunState{Document: r.From.State.Document, Sensitive: r.From.State.Sensitive}, Folder: r.From.Folder}
	}
	out.Paused = r.Paused
	if r.Timeout != 0 {
		out.Timeout = durationpb.New(r.Timeout)
	}
	if r.Grace != 0 {
		out.Grace = durationpb.New(max(r.Grace, 0))
	}
	return out, nil
}

// Status is how a run is.
type Status struct {
	ID        string
	State     event.Status // Running, Success, Failure or Cancelled
	Error     *event.Error // why it did not succeed; nil otherwise
	ExitCode  *int         // of the process that decided a failure; nil when none did
	Started   time.Time
	Finished  time.Time              // zero while it runs
	Outputs   map[string]value.Value // a sensitive one is event.Redacted
	LogBytes  int64
	LastEvent int64
	Paused    *Boundary // where the run is paused, which is Running all the same; nil while it goes on
}

var states = map[runnerv1.State]event.Status{
	runnerv1.State_STATE_RUNNING:   event.Running,
	runnerv1.State_STATE_SUCCESS:   event.Success,
	runnerv1.State_STATE_FAILURE:   event.Failure,
	runnerv1.State_STATE_CANCELLED: event.Cancelled,
}

var errorKinds = map[runnerv1.ErrorKind]event.ErrorKind{
	runnerv1.ErrorKind_ERROR_KIND_STEP:       event.ErrorStep,
	runnerv1.ErrorKind_ERROR_KIND_TIMEOUT:    event.ErrorTimeout,
	runnerv1.ErrorKind_ERROR_KIND_DEFINITION: event.ErrorDefinition,
	runnerv1.ErrorKind_ERROR_KIND_DENIED:     event.ErrorDenied,
	runnerv1.ErrorKind_ERROR_KIND_NOT_FOUND:  event.ErrorNotFound,
	runnerv1.ErrorKind_ERROR_KIND_CANCELLED:  event.ErrorCancelled,
	runnerv1.ErrorKind_ERROR_KIND_SYSTEM:     event.ErrorSystem,
}

func fromRunStatus(m *runnerv1.RunStatus) (*Status, error) {
	out := &Status{
		ID: m.GetId(), State: states[m.GetState()], Started: m.GetStarted().AsTime(),
		LogBytes: m.GetLogBytes(), LastEvent: m.GetLastEvent(),
	}
	out.Paused = fromBoundary(m.GetPaused())
	if m.GetFinished() != nil {
		out.Finished = m.GetFinished().AsTime()
	}
	if m.ExitCode != nil {
		code := int(m.GetExitCode())
		out.ExitCode = &code
	}
	if e := m.GetError(); e != nil {
		out.Error = fromError(e)
	}
	for name, v := range m.GetOutputs() {
		converted, err := planpb.FromValue(v)
		if err != nil {
			return nil, fmt.Errorf("reading the output %q of the run %q: %w", name, m.GetId(), err)
		}
		if out.Outputs == nil {
			out.Outputs = map[string]value.Value{}
		}
		out.Outputs[name] = converted
	}
	return out, nil
}

func fromError(e *runnerv1.Error) *event.Error {
	out := &event.Error{
		Code: event.Code(e.GetCode()), Kind: errorKinds[e.GetKind()], Step: e.GetStep(), StepName: e.GetStepName(),
		Message: e.GetMessage(), Hint: e.GetHint(), Diagnostics: fromDiagnostics(e.GetDiagnostics()),
	}
	if out.Kind == "" {
		out.Kind = event.ErrorSystem // one that a newer server knows
	}
	if t := e.GetTimeout(); t != nil {
		out.Timeout = &event.Timeout{Of: event.TimeoutOf(t.GetOf()), Limit: plan.Duration(t.GetLimit().AsDuration())}
	}
	return out
}

// Err is nil when the run succeeded or has not ended, and else an error of the type that says why.
func (s *Status) Err() error {
	if s.State == event.Running || s.State == event.Success {
		return nil
	}
	f := Failure{ID: s.ID, Err: s.Error}
	if f.Err == nil {
		f.Err = event.NewError(event.CodeInternalError, "the run %q failed", s.ID)
	}
	switch f.Err.Kind {
	case event.ErrorStep:
		code := -1
		if s.ExitCode != nil {
			code = *s.ExitCode
		}
		return &StepFailure{f, code}
	case event.ErrorTimeout:
		return &Timeout{f}
	case event.ErrorDefinition:
		return &Definition{f}
	case event.ErrorDenied:
		return &Denied{f}
	case event.ErrorNotFound:
		return &Missing{f}
	case event.ErrorCancelled:
		return &Cancelled{f}
	default:
		return &System{f}
	}
}
