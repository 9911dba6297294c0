package executor

// PullError says that an image cannot be pulled, whoever's fault that is: a *UserError around it says that it is the job's.
type PullError struct {
	Image string
	Err   error
}

func (e *PullError) Error() string { return e.Err.Error() }

// Unwrap returns what the engine or the registry said.
func (e *PullError) Unwrap() error { return e.Err }
