package wire

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "github.com/rungci/rung/api/rung/fleet/v1"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/internal/pluginoption"
)

// maxText bounds every text for people, in bytes.
const maxText = 16 << 10

// kinds are the errors with identity, by their codes. The first that an error is counts.
var kinds = []struct {
	code fleetv1.Code
	err  error
}{
	{fleetv1.Code_CODE_UNCERTAIN, group.ErrUncertain},
	{fleetv1.Code_CODE_QUOTA, group.ErrQuota},
	{fleetv1.Code_CODE_NOT_FOUND, group.ErrNotFound},
	{fleetv1.Code_CODE_UNAUTHORISED, group.ErrUnauthorised},
	{fleetv1.Code_CODE_TRANSIENT, group.ErrTransient},
	{fleetv1.Code_CODE_UNHEALTHY, group.ErrInstanceUnhealthy},
	{fleetv1.Code_CODE_IN_USE, group.ErrInUse},
	{fleetv1.Code_CODE_UNSUPPORTED, group.ErrUnsupported},
	{fleetv1.Code_CODE_CANCELLED, context.Canceled},
	{fleetv1.Code_CODE_CANCELLED, context.DeadlineExceeded},
}

// Status makes an error one that a call can return, with its identity. It returns nil for nil.
func Status(err error) error {
	if err == nil {
		return nil
	}
	s := status.New(codes.Internal, clip(err.Error()))
	detailed, failed := s.WithDetails(EncodeError(err))
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
		if e, is := detail.(*fleetv1.Error); is {
			if err := DecodeError(e); e.GetOption() != "" {
				return &pluginoption.Error{Pointer: clip(e.GetOption()), Err: err}, true
			}
			return DecodeError(e), true
		}
	}
	return err, false
}

// EncodeError makes a message of an error; nil of nil.
func EncodeError(err error) *fleetv1.Error {
	if err == nil {
		return nil
	}
	out := &fleetv1.Error{Code: fleetv1.Code_CODE_INTERNAL, Message: clip(err.Error())}
	for _, kind := range kinds {
		if errors.Is(err, kind.err) {
			out.Code = kind.code
			break
		}
	}
	var wrong *pluginoption.Error
	if errors.As(err, &wrong) {
		out.Option = clip(pluginoption.Join(wrong.Path()...))
	}
	if after, _ := group.RetryAfter(err); after > 0 {
		out.After = duration(after)
	}
	return out
}

// said is an error of the other side: its text is as it was there.
type said struct {
	text string
	kind *group.Error
}

// Error implements error.
func (e *said) Error() string { return e.text }

// Unwrap returns what carries the kind.
func (e *said) Unwrap() error { return e.kind }

// DecodeError is the error of a message, with its kind and its text; nil of nil. Codes that are not known are internal errors.
func DecodeError(e *fleetv1.Error) error {
	if e == nil {
		return nil
	}
	text := clip(e.GetMessage())
	if text == "" {
		text = "the plugin does not say why"
	}
	for _, kind := range kinds {
		if kind.code == e.GetCode() {
			return &said{text: text, kind: &group.Error{Kind: kind.err, Message: text, After: max(e.GetAfter().AsDuration(), 0)}}
		}
	}
	return errors.New(text)
}

// clip bounds a text.
func clip(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return strings.ToValidUTF8(text, "�")
}
