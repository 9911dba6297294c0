package engine

import (
	"maps"

	"github.com/rungci/rung/steps/check"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// This file is what components may do with the tokens of the job.

// permissions are those of the component that the call leads to; nil is all that the job has. A component has what it requests, which its callers
// have granted on the whole way; an action what its step grants or, without that, what the list has that its step is in.
func (c *call) permissions() map[string]string {
	if c == nil {
		return nil
	}
	around := c.from.call.permissions()
	wanted := c.spec.Permissions
	switch {
	case c.open(), c.isOwn(), c.isAction() && c.step.Permissions == nil:
		return around
	case c.isAction():
		wanted = c.step.Permissions
	}
	if around == nil {
		return orNone(wanted)
	}
	out := map[string]string{}
	for scope, level := range wanted {
		if plan.Permits(around, scope, level) {
			out[scope] = level
		}
	}
	return out
}

// orNone tells no permission from all of them.
func orNone(permissions map[string]string) map[string]string {
	if permissions == nil {
		return map[string]string{}
	}
	return maps.Clone(permissions)
}

// permit refuses what a component requests and its caller does not grant.
func (c *call) permit() *event.Error {
	around := c.from.call.permissions()
	if message, hint := check.Permission(c.step, c.spec, around, around == nil); message != "" {
		return c.from.run.at(hinted(event.NewError(event.CodeDenied, "%s", message), hint), c.step.Span)
	}
	return nil
}

// permissionsValue is what functions see of permissions.
func permissionsValue(permissions map[string]string) value.Value {
	fields := map[string]value.Value{}
	for scope, level := range permissions {
		fields[scope] = value.OfString(level)
	}
	return value.OfStruct(fields)
}
