package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service/client"
)

// AsError says whose fault it is that a job did not get as far as its steps. It returns nil for nil.
func AsError(ctx context.Context, err error) *event.Error {
	var refusal *executor.Refusal
	var user *executor.UserError
	var definition *client.Definition
	var own *event.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &event.Error{Kind: event.ErrorCancelled, Message: context.Cause(ctx).Error()}
	case errors.As(err, &refusal):
		return &event.Error{Kind: event.ErrorDefinition, Message: err.Error()}
	case errors.As(err, &user):
		return &event.Error{Kind: event.ErrorDefinition, Message: user.Message, Hint: user.Hint}
	case errors.As(err, &definition):
		return &event.Error{Kind: event.ErrorDefinition, Message: definition.Message, Hint: definition.Hint, Diagnostics: definition.Diagnostics}
	case errors.As(err, &own):
		return own
	}
	if list := diag.Of(err); list != nil {
		return &event.Error{Kind: event.ErrorDefinition, Message: list[0].Message, Hint: list[0].Hint, Diagnostics: list}
	}
	return &event.Error{Kind: event.ErrorSystem, Message: err.Error()}
}

// Problem is an error of a job that is found before it starts.
func Problem(kind event.ErrorKind, hint, format string, args ...any) *event.Error {
	return &event.Error{Kind: kind, Message: fmt.Sprintf(format, args...), Hint: hint}
}
