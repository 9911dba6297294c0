package values

import (
	"github.com/spf13/pflag"

	"github.com/rungci/rung/cmd/step-runner/command"
)

// EnvPolicies say what components get of the environment around their steps: what their specs request, or all.
var EnvPolicies = []string{"request", envInherit}

const envInherit = "inherit"

// EnvPolicy is the value of --env-policy.
type EnvPolicy string

// Declare declares the flag.
func (p *EnvPolicy) Declare(f *pflag.FlagSet) {
	f.StringVar((*string)(p), "env-policy", EnvPolicies[0], "give components variables by `POLICY`: request (what their specs request) or inherit (all of them)")
}

// Inherits reports whether components get all variables.
func (p EnvPolicy) Inherits() (bool, error) {
	return p == envInherit, command.OneOf("--env-policy", string(p), EnvPolicies...)
}
