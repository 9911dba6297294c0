package executor

import "context"

// LeftError is part of the error of Executor.Prepare where something of the environment could not be removed, as while its host does not answer.
type LeftError struct {
	Err    error
	Remove func(context.Context) error // tries again
}

func (e *LeftError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *LeftError) Unwrap() error { return e.Err }
