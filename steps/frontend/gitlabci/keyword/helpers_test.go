package keyword_test

import (
	"strings"

	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// policy is `only` or `except` in one line.
func policy(p *when.Policy) string {
	var out []string
	for _, ref := range p.Refs {
		out = append(out, ref.String())
	}
	for i, e := range p.Variables {
		if i == 0 {
			out = append(out, "variables")
		}
		out = append(out, e.Source())
	}
	if p.Changes != nil {
		out = append(out, "changes", strings.Join(p.Changes, " "))
	}
	if p.Kubernetes {
		out = append(out, "kubernetes")
	}
	return strings.Join(out, " ")
}
