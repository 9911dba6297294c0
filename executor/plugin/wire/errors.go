package wire

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	executorv1 "github.com/rungci/rung/api/rung/executor/v1"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/internal/pluginoption"
	"github.com/rungci/rung/internal/scarcity"
)

// maxDepth bounds the chain of causes, and maxText each text of it, in bytes.
const (
	maxDepth = 8
	maxText  = 16 << 10
)

// Status makes an error one that a call can return, with its identity. It returns nil for nil.
func Status(err error) error {
	if err == nil {
		return nil
	}
	s := status.New(codes.Internal, clip(err.Error()))
	detailed, failed := s.WithDetails(Encode(err))
	if failed != nil {
		return s.Err()
	}
	return detailed.Err()
}

// FromStatus is the error that a call of a plugin failed with. ok is false where the plugin did not say: the connection is why.
func FromStatus(err error) (out error, ok bool) {
	s, isStatus := status.FromError(err)
	if !isStatus {
		return err, false
	}
	for _, detail := range s.Details() {
		if e, is := detail.(*executorv1.Error); is {
			return option(e.GetOption(), Decode(e)), true
		}
	}
	return err, false
}

// sentinels are the errors that are no types, by their codes.
var sentinels = []struct {
	code executorv1.Code
	err  error
}{
	{executorv1.Code_CODE_OWNED, executor.ErrOwned},
	{executorv1.Code_CODE_IN_USE, executor.ErrInUse},
	{executorv1.Code_CODE_OUT_OF_MEMORY, executor.ErrOutOfMemory},
	{executorv1.Code_CODE_DISK_FULL, host.ErrNoSpace},
	{executorv1.Code_CODE_CLOSED, executor.ErrClosed},
	{executorv1.Code_CODE_NOT_FOUND, fs.ErrNotExist},
	{executorv1.Code_CODE_CANCELLED, context.Canceled},
}

// Encode makes a message of an error that is not nil: of the outermost that the contract knows, and what is below that.
func Encode(err error) *executorv1.Error { return encode(err, 0) }

func encode(err error, depth int) *executorv1.Error {
	if err == nil || depth == maxDepth {
		return nil
	}
	e := &executorv1.Error{Code: executorv1.Code_CODE_INTERNAL, Message: clip(err.Error()), Option: optionOf(err)}
	var gone *executor.Gone
	var refusal *executor.Refusal
	var user *executor.UserError
	var pull *executor.PullError
	switch {
	case errors.As(err, &gone):
		e.Code, e.Message, e.Cause = executorv1.Code_CODE_GONE, clip(gone.Reason), encode(gone.Err, depth+1)
	case errors.Is(err, executor.ErrGone):
		e.Code, e.Message, e.Cause = executorv1.Code_CODE_GONE, "it has ended", &executorv1.Error{Code: executorv1.Code_CODE_INTERNAL, Message: e.Message}
	case errors.As(err, &refusal):
		e.Code, e.Level, e.What, e.Could = executorv1.Code_CODE_REFUSED, string(refusal.Level), clip(refusal.What), string(refusal.Could)
	case errors.As(err, &user):
		e.Code, e.Message, e.Hint, e.Cause = executorv1.Code_CODE_USER, clip(user.Message), clip(user.Hint), encode(user.Err, depth+1)
	case errors.As(err, &pull):
		e.Code, e.Image, e.Cause = executorv1.Code_CODE_PULL, clip(pull.Image), encode(pull.Err, depth+1)
	case scarcity.DiskFull(err):
		e.Code = executorv1.Code_CODE_DISK_FULL
	case errors.Is(err, context.DeadlineExceeded):
		e.Code = executorv1.Code_CODE_CANCELLED
	default:
		for _, s := range sentinels {
			if errors.Is(err, s.err) {
				e.Code = s.code
				break
			}
		}
	}
	return e
}

// Decode is the error that a message describes. It satisfies errors.Is and errors.As as the one that was encoded. Codes that are not known
// are internal errors. It is not nil.
func Decode(e *executorv1.Error) error { return decode(e, 0) }

func decode(e *executorv1.Error, depth int) error {
	message := clip(e.GetMessage())
	if message == "" {
		message = "the plugin does not say why"
	}
	var cause error
	if e.GetCause() != nil && depth < maxDepth {
		cause = decode(e.GetCause(), depth+1)
	}
	switch e.GetCode() {
	case executorv1.Code_CODE_GONE:
		return &executor.Gone{Reason: clip(e.GetMessage()), Err: cause}
	case executorv1.Code_CODE_REFUSED:
		return &executor.Refusal{Level: executor.Level(clip(e.GetLevel())), What: clip(e.GetWhat()), Could: executor.Level(clip(e.GetCould()))}
	case executorv1.Code_CODE_USER:
		return &executor.UserError{Message: message, Hint: clip(e.GetHint()), Err: cause}
	case executorv1.Code_CODE_PULL:
		if cause == nil {
			cause = errors.New(message)
		}
		return &executor.PullError{Image: clip(e.GetImage()), Err: cause}
	}
	for _, s := range sentinels {
		if s.code == e.GetCode() {
			return &named{message, s.err}
		}
	}
	return errors.New(message)
}

// named is an error that is one of the contract's, with the text of the plugin.
type named struct {
	message string
	is      error
}

func (e *named) Error() string { return e.message }

// Unwrap returns the error of the contract.
func (e *named) Unwrap() error { return e.is }

// clip bounds a text, and makes it one that a message can hold.
func clip(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// optionOf is the option that an error is about, as a JSON pointer; empty where it is about none.
func optionOf(err error) string {
	var wrong *pluginoption.Error
	if errors.As(err, &wrong) {
		return clip(pluginoption.Join(wrong.Path()...))
	}
	return ""
}

// option makes an error one of an option, if that is named.
func option(pointer string, err error) error {
	if pointer == "" {
		return err
	}
	return &pluginoption.Error{Pointer: clip(pointer), Err: err}
}
