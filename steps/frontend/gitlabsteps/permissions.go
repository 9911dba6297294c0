package gitlabsteps

import (
	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
)

// scopePattern is what a scope of permissions looks like.
var scopePattern = lazyregexp.New(`^[a-z][a-z0-9-]*$`)

// permissions reads a map of scopes and levels. They are known before anything runs, so that no expression is in them.
func (p *reader) permissions(n *yamlsource.Node) map[string]string {
	if n.Kind != yamlsource.Mapping {
		p.report(n.Span, "write {contents: read, id-token: write}", `"permissions" must be an object, not %s`, n.Kind)
		return nil
	}
	out := map[string]string{}
	for _, e := range n.Entries {
		scope, level := e.Key.Text, e.Value.Text
		switch {
		case !scopePattern.MatchString(scope):
			p.report(e.Key.Span, "use small letters, digits and hyphens", "%q cannot be the scope of a permission", shorten(scope))
		case e.Value.Kind != yamlsource.String || level == "":
			p.report(e.Value.Span, `write read or write`, "the permission %q must be a string, not %s", scope, e.Value.Kind)
		case expr.Has(level):
			p.report(e.Value.Span, "write it as it is", "a permission cannot be an expression: it is known before anything runs")
		case level != plan.PermissionRead && level != plan.PermissionWrite && scope != plan.PermissionIDToken:
			p.report(e.Value.Span, "leave it out to grant nothing", `the permission %q must be "read" or "write", not %q`, scope, shorten(level))
		case level == plan.PermissionRead && scope == plan.PermissionIDToken:
			p.report(e.Value.Span, "write the audience that tokens are for, or write for any", "identity tokens cannot be read")
		default:
			out[scope] = level
		}
	}
	return out
}
