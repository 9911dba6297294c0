package executor

import (
	"errors"
	"fmt"
)

// ErrGone is what every error about an environment that can run nothing any more wraps.
var ErrGone = errors.New("the job's environment is gone")

// ErrOwned says that an environment cannot be taken over, because the process that owns it still runs.
var ErrOwned = errors.New("the environment belongs to a running process")

// ErrInUse says that a kept project folder cannot be removed, because a job has it.
var ErrInUse = errors.New("a job uses the kept project folder")

// ErrOutOfMemory is why an environment ended that used more memory than it has.
var ErrOutOfMemory = errors.New("out of memory")

// ErrClosed is the reason of an environment that was closed by its owner.
var ErrClosed = errors.New("it was closed")

// Gone is an environment that ended, or can run nothing any more. It is an internal error, never the user's.
type Gone struct {
	// Reason says what happened: "the job's container was removed", "the step-runner was killed (signal: killed)".
	Reason string
	Err    error // may be nil
}

func (e *Gone) Error() string {
	if e.Reason == "" && e.Err != nil {
		return fmt.Sprintf("%v: %v", ErrGone, e.Err)
	}
	return fmt.Sprintf("%v: %s", ErrGone, e.Reason)
}

// Unwrap makes errors.Is(err, ErrGone) true.
func (e *Gone) Unwrap() []error { return []error{ErrGone, e.Err} }

// JobFailure says that the job has failed, in the words of somebody who decides that beside its steps: the driver of its place.
type JobFailure struct {
	Message string
	Code    *int // the exit code that counts as the job's; nil is none
}

func (e *JobFailure) Error() string { return e.Message }

// UserError is an error that the job, not the system, is the reason of.
type UserError struct {
	Message string
	Hint    string
	Err     error
}

func (e *UserError) Error() string { return e.Message }

// Unwrap returns the error below.
func (e *UserError) Unwrap() error { return e.Err }
