package group

import (
	"errors"
	"fmt"
	"time"
)

// What can be wrong with a call. errors.Is finds these in every error of a group, on both sides of a wire. An error without one of them is an internal error of the
// group; whether the call had an effect is in its other results.
var (
	// ErrQuota says that the cloud gives no more now: a quota, a limit of the group, or no capacity for the shape. Another pool may have some.
	ErrQuota = errors.New("the cloud gives no more machines")
	// ErrNotFound says that there is no such instance, shape or group.
	ErrNotFound = errors.New("not found")
	// ErrUnauthorised says that the cloud refuses the credentials: it will not work by trying again.
	ErrUnauthorised = errors.New("the cloud refuses the credentials")
	// ErrTransient says that it may work when tried again. RetryAfter says when.
	ErrTransient = errors.New("it may work later")
	// ErrInstanceUnhealthy says that an instance must get no more work.
	ErrInstanceUnhealthy = errors.New("the instance is unhealthy")
	// ErrUncertain says that nobody knows whether the call had an effect: its answer did not come. Only a list of the instances can tell.
	ErrUncertain = errors.New("it is not known whether the call had an effect")
	// ErrInUse says that a volume is on another machine, or was attached again since.
	ErrInUse = errors.New("the volume is in use")
	// ErrUnsupported says that the group does not do that.
	ErrUnsupported = errors.ErrUnsupported
	// ErrSuspendResumeNotSupported says that the group cannot suspend. It is an ErrUnsupported.
	ErrSuspendResumeNotSupported = fmt.Errorf("suspend and resume: %w", errors.ErrUnsupported)
)

// Error is an error with identity and a text of its own.
type Error struct {
	// Kind is one of the errors above.
	Kind error
	// Message says what happened, in the words of the cloud; empty: Kind says it.
	Message string
	// After is when it is worth to try again, with ErrTransient and ErrQuota; 0: not known.
	After time.Duration
	// Err is the error below; may be nil. It is not part of the text, and stays on its side of a wire.
	Err error
}

func (e *Error) Error() string {
	switch {
	case e.Message == "" && e.Err == nil:
		return e.Kind.Error()
	case e.Message == "":
		return fmt.Sprintf("%v: %v", e.Kind, e.Err)
	}
	return fmt.Sprintf("%v: %s", e.Kind, e.Message)
}

// Unwrap returns the kind and the error below.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// Transient is an error that may not come again after a while; 0: nobody knows when.
func Transient(after time.Duration, err error) error {
	return &Error{Kind: ErrTransient, After: after, Err: err}
}

// RetryAfter says whether the same call may work later, and when it is worth to try; 0: nobody knows.
func RetryAfter(err error) (after time.Duration, later bool) {
	var e *Error
	if errors.As(err, &e) {
		after = e.After
	}
	return after, errors.Is(err, ErrTransient) || after > 0 && errors.Is(err, ErrQuota)
}
