package client

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
)

// Failure is what all errors of a run have in common.
type Failure struct {
	ID  string       // of the run
	Err *event.Error // what went wrong, in which step, and what to do about it
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns what went wrong, and the diagnostics, so that diag.Of finds them.
func (f *Failure) Unwrap() []error {
	if len(f.Err.Diagnostics) == 0 {
		return []error{f.Err}
	}
	return []error{f.Err, f.Err.Diagnostics}
}

// The ways in which a run can fail.
type (
	// StepFailure says that the command of a step failed.
	StepFailure struct {
		Failure
		ExitCode int // of the process; -1 when it had none
	}
	// Timeout says that the run or a step exceeded its time limit.
	Timeout struct{ Failure }
	// Definition says that the steps, an input or an output are invalid.
	Definition struct{ Failure }
	// Denied says that something was requested that is not granted.
	Denied struct{ Failure }
	// Missing says that a component does not exist.
	Missing struct{ Failure }
	// Cancelled says that somebody stopped the run.
	Cancelled struct{ Failure }
	// System says that the server has an internal error: host, disk, network.
	System struct{ Failure }
)

// The ways in which a call can fail.
var (
	// ErrNoRun says that the server does not know the ID: the run was closed, it expired, or the server was restarted.
	ErrNoRun = errors.New("the run does not exist")
	// ErrIDTaken says that the ID belongs to a run with a different request.
	ErrIDTaken = errors.New("the ID is taken")
	// ErrBusy says that the server has reached its limit of runs or followers.
	ErrBusy = errors.New("the server has reached its limit")
	// ErrUnauthenticated says that the token is missing or wrong.
	ErrUnauthenticated = errors.New("the token was rejected")
	// ErrLogLost says that the rest of a log could not be stored.
	ErrLogLost = errors.New("the log is incomplete")
	// ErrTooMuch says that more was reported of a run than the caller accepts.
	ErrTooMuch = errors.New("the server reports too much of the run")
	// ErrNotEnded says that a run has not ended, so that its trace is incomplete.
	ErrNotEnded = errors.New("the run has not ended")
	// ErrNotPaused says that a run is not paused, or cannot be: it has ended, it is being stopped, or something of it cannot be moved.
	ErrNotPaused = errors.New("the run is not paused")
)

var callErrors = map[codes.Code]error{
	codes.NotFound:           ErrNoRun,
	codes.AlreadyExists:      ErrIDTaken,
	codes.ResourceExhausted:  ErrBusy,
	codes.Unauthenticated:    ErrUnauthenticated,
	codes.DataLoss:           ErrLogLost,
	codes.DeadlineExceeded:   context.DeadlineExceeded,
	codes.Canceled:           context.Canceled,
	codes.FailedPrecondition: ErrNotEnded,
}

// callError makes a typed error of what a call returned; status.FromError still finds the status in it.
func callError(doing, id string, err error) error {
	if err == nil {
		return nil
	}
	doing = fmt.Sprintf("%s the run %q", doing, id)
	st, ok := status.FromError(err)
	var local *localError
	if !ok || errors.As(err, &local) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if st.Code() == codes.InvalidArgument {
		wrong := event.NewError(event.CodeDefinitionInvalid, "%s", st.Message())
		for _, detail := range st.Details() {
			if found, ok := detail.(*runnerv1.Diagnostics); ok {
				wrong.Diagnostics = fromDiagnostics(found.GetDiagnostics())
			}
		}
		return fmt.Errorf("%s: %w", doing, &Definition{Failure{ID: id, Err: wrong}})
	}
	if kind := callErrors[st.Code()]; kind != nil {
		return &callFailure{fmt.Sprintf("%s: %s", doing, st.Message()), []error{kind, err}}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// pauseError is callError for calls that are about a boundary.
func pauseError(doing, id string, err error) error {
	if st, ok := status.FromError(err); ok && st.Code() == codes.FailedPrecondition {
		return &callFailure{fmt.Sprintf("%s the run %q: %s", doing, id, st.Message()), []error{ErrNotPaused, err}}
	}
	return callError(doing, id, err)
}

// callFailure is an error of a kind that keeps the status it was made from.
type callFailure struct {
	message string
	errs    []error
}

func (e *callFailure) Error() string   { return e.message }
func (e *callFailure) Unwrap() []error { return e.errs }

func fromDiagnostics(list []*runnerv1.Diagnostic) diag.List {
	var out diag.List
	for _, d := range list {
		out = append(out, diag.Diagnostic{
			Span:    diag.Span{File: d.GetFile(), Line: int(d.GetLine()), Column: int(d.GetColumn()), Length: int(d.GetLength())},
			Message: d.GetMessage(), Hint: d.GetHint(), Source: d.GetSourceLine(), Note: d.GetNote(),
		})
	}
	return out
}
