package findings

import (
	"slices"

	"github.com/rungci/rung/local/github"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/problems"
	"github.com/rungci/rung/steps/diag/rules"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// ofWorkflow are the findings of a workflow that no comment ignores.
func ofWorkflow(l *github.Linted) []problems.Problem {
	text := func(file string) []byte { return l.Texts[file] }
	return problems.Sorted(rules.Apply(l.Found, []string{l.File}, text))
}

// ofPipeline are the findings of a .gitlab-ci.yml that no comment ignores. c may be nil. Comments are also read in included files, but only those of
// the project have to be right.
func ofPipeline(c *config.Config, wrong, warnings diag.List) []problems.Problem {
	texts := map[string][]byte{}
	var own []string
	if c != nil {
		for _, s := range c.Sources {
			if texts[s.Name] == nil && (s.Parent == nil || s.Place.Kind == config.Local) {
				own = append(own, s.Name)
			}
			texts[s.Name] = s.Text()
		}
	}
	found := append(rules.Set(slices.Clone(wrong), rules.Invalid), rules.Set(slices.Clone(warnings), rules.Suspicious)...)
	return problems.Sorted(rules.Apply(found, own, func(file string) []byte { return texts[file] }))
}
