package findings

import (
	"os"
	"path/filepath"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/project"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/problems"
	"github.com/rungci/rung/steps/diag/rules"
)

// sources are what is wrong with the files that say where components come from: no job runs before that is right.
type sources struct {
	found []problems.Problem
	told  map[string]bool
	steps bool // those of the folder in which steps are checked are among them
}

// ofSources reads the sources.toml files that count for runs of the targets.
func ofSources(p *command.Program, o *project.Flags, targets []target) (*sources, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, exit.Coded(exit.System, "finding the current folder: %v", err)
	}
	s, read := &sources{told: map[string]bool{}}, map[string]bool{}
	for _, t := range targets {
		root := here
		if !t.looksUp() {
			root = o.Root(t.name)
		}
		if read[root] {
			continue
		}
		read[root] = true
		_, err := o.From.Rules(p, root)
		wrong := diag.Of(err)
		if err != nil && wrong == nil {
			return nil, err
		}
		s.steps = s.steps || wrong != nil && root == here
		s.add(here, wrong)
	}
	return s, nil
}

func (s *sources) add(here string, wrong diag.List) {
	for _, d := range wrong {
		if s.told[d.Error()] {
			continue // of the user's file, which counts for all
		}
		s.told[d.Error()] = true
		if rel, err := filepath.Rel(here, d.File); err == nil && filepath.IsLocal(rel) {
			d.File = filepath.ToSlash(rel)
		}
		s.found = append(s.found, problems.Sorted(rules.Set(diag.List{d}, rules.Invalid))...)
	}
}

// without leaves out of the problems of a target those of the sources, which who looked for its components has met again.
func (s *sources) without(found []problems.Problem) (rest []problems.Problem) {
	for _, p := range found {
		if !s.told[p.Error()] {
			rest = append(rest, p)
		}
	}
	return rest
}

// looksUp reports whether a target cannot be checked without knowing where its components are.
func (t target) looksUp() bool {
	return t.kind == stepsFile || t.kind == actionFile || t.kind == component
}
