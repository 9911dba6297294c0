package event

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/plan"
)

// Error is a failure as data. Nothing decides by its texts: Code, Kind and Step say what happened, and views turn them into text.
type Error struct {
	Code Code      // what went wrong; empty stands for the general code of Kind
	Kind ErrorKind // the class of Code
	// Step is the ID of the step that the failure began in ("2.1"), and StepName the names on the way to it ("crew/greet"). Both are empty
	// when it began in no step.
	Step, StepName string
	Message        string // says what is wrong, and not in which step
	Hint           string // what to do next; may be empty
	// Timeout says what ran out of time; nil unless Kind is ErrorTimeout.
	Timeout     *Timeout
	Diagnostics diag.List
}

// Timeout is a time limit that was exceeded.
type Timeout struct {
	Of    TimeoutOf     `json:"of"`
	Limit plan.Duration `json:"limit"`
}

// TimeoutOf names what has a time limit.
type TimeoutOf string

// What has a time limit.
const (
	TimeoutRun     TimeoutOf = "run"
	TimeoutStep    TimeoutOf = "step"
	TimeoutCommand TimeoutOf = "command" // the process of a step
	TimeoutCleanup TimeoutOf = "cleanup" // the steps that run after the run was stopped
)

// Hints about what a machine has too little of, the same wherever that is noticed.
const (
	HintDisk   = "free space on it, or give the job a larger disk"
	HintMemory = "give the job more memory, or let it do less at a time"
)

// NewError returns an error with a code of Codes.
func NewError(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Kind: code.Kind(), Message: fmt.Sprintf(format, args...)}
}

// TimedOut returns the error of something that exceeded its time limit.
func TimedOut(of TimeoutOf, limit plan.Duration) *Error {
	code, subject := CodeRunTimeout, "the run"
	switch of {
	case TimeoutStep:
		code, subject = CodeStepTimeout, "the step"
	case TimeoutCommand:
		code, subject = CodeCommandTimeout, "the command"
	case TimeoutCleanup:
		code, subject = CodeCleanupTimeout, "cleaning up"
	}
	e := NewError(code, "%s timed out after %s", subject, time.Duration(limit))
	e.Timeout = &Timeout{of, limit}
	return e
}

// Error returns the message with the step that it is about before it: step "crew/greet": exit status 2.
func (e *Error) Error() string {
	if e.StepName == "" {
		return e.Message
	}
	return fmt.Sprintf("step %q: %s", e.StepName, e.Message)
}

// Within returns the text of the error for a view that shows it at a step: the step itself is not named again.
func (e *Error) Within(step string) string {
	if e.Step == step {
		return e.Message
	}
	return e.Error()
}

// errorJSON is the form of an error in JSON: its fault is there for readers that do not have the table of codes.
type errorJSON struct {
	Code        Code      `json:"code,omitempty"`
	Kind        ErrorKind `json:"kind"`
	Fault       Fault     `json:"fault,omitempty"`
	Step        string    `json:"step,omitempty"`
	StepName    string    `json:"step_name,omitempty"`
	Message     string    `json:"message"`
	Hint        string    `json:"hint,omitempty"`
	Timeout     *Timeout  `json:"timeout,omitempty"`
	Diagnostics diag.List `json:"diagnostics,omitempty"`
}

// MarshalJSON writes the fields under their names in docs/trace.md.
func (e Error) MarshalJSON() ([]byte, error) {
	return json.Marshal(errorJSON{cmp.Or(e.Code, e.Kind.Code()), e.Kind, e.Fault(), e.Step, e.StepName, e.Message, e.Hint, e.Timeout, e.Diagnostics})
}

// UnmarshalJSON reads what MarshalJSON writes, and the errors of older traces, which have no code and whose message names the step.
func (e *Error) UnmarshalJSON(data []byte) error {
	var j errorJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*e = Error{j.Code, j.Kind, j.Step, j.StepName, j.Message, j.Hint, j.Timeout, j.Diagnostics}
	if rest, older := strings.CutPrefix(j.Message, `step "`); older && j.Code == "" {
		if name, message, ok := strings.Cut(rest, `": `); ok {
			e.StepName, e.Message = name, message
		}
	}
	return nil
}

// Stop is the reason for which a run is stopped: the cause of its context.
type Stop struct {
	Code   Code   // of the kind ErrorCancelled or ErrorTimeout
	Reason string // for people, such as "interrupted"
}

func (s *Stop) Error() string { return s.Reason }

// StopOf returns the reason that the cause of a context holds; CodeCancelled where nobody gave a code.
func StopOf(cause error) *Stop {
	var stop *Stop
	if errors.As(cause, &stop) {
		return stop
	}
	return &Stop{CodeCancelled, cause.Error()}
}
