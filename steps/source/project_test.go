package source_test

import (
	"errors"
	"testing"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/lock"
)

// builtin is a reference to a built-in component.
func builtin(path ...string) *plan.Reference {
	return &plan.Reference{Kind: plan.RefBuiltin, Text: "builtin://" + path[len(path)-1], Path: path}
}

func TestAProjectThatARunChecksOut(t *testing.T) {
	t.Parallel()
	s := newServer()
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		said   error // by the project
		rules  source.Rules
		denied bool
	}{
		"with nothing to say":          {},
		"whose rules deny a component": {rules: rules{err: &source.DeniedError{What: "hello", Why: "no"}}, denied: true},
		"with a mistake":               {said: refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reads := 0
			r := s.resolver(t, t.TempDir(), func(r *source.Resolver) {
				r.Project = &source.Project{Read: func() (*lock.File, source.Rules, error) { reads++; return nil, c.rules, c.said }}
			})
			step := source.WithStep(t.Context(), "1")
			var missing *source.NotFoundError
			if _, err := r.Load(t.Context(), git("v1", "hello"), r.WorkDir); !errors.As(err, &missing) {
				t.Errorf("ahead of the run: the error is %v, want a NotFoundError", err)
			}
			if err := r.Check(git("v1", "hello"), r.WorkDir); err != nil {
				t.Errorf("checked ahead of the run: %v", err)
			}
			for _, ref := range []*plan.Reference{builtin("script"), builtin("git", "checkout"), builtin("git", "checkout")} {
				_, _ = r.Load(step, ref, r.WorkDir) // there are none in this test
			}
			if reads != 0 {
				t.Fatal("the project was read before it was checked out")
			}
			for range 2 {
				_, err := r.Load(step, git("v1", "hello"), r.WorkDir)
				var denied *source.DeniedError
				if errors.As(err, &denied) != c.denied || c.said != nil && !errors.Is(err, c.said) || (err != nil) != (c.denied || c.said != nil) {
					t.Errorf("after the checkout: %v", err)
				}
			}
			if reads != 1 {
				t.Errorf("the project was read %d times", reads)
			}
		})
	}
	t.Run("is read before the built-in steps behind the checkout, which may write to it", func(t *testing.T) {
		t.Parallel()
		reads := 0
		r := s.resolver(t, t.TempDir(), func(r *source.Resolver) {
			r.Project = &source.Project{Read: func() (*lock.File, source.Rules, error) { reads++; return nil, nil, nil }}
		})
		step := source.WithStep(t.Context(), "1")
		_, _ = r.Load(step, builtin("git", "checkout"), r.WorkDir)
		_, _ = r.Load(step, builtin("artifacts", "download"), r.WorkDir)
		if reads != 1 {
			t.Errorf("it was read %d times", reads)
		}
	})
}

func TestChecksOut(t *testing.T) {
	t.Parallel()
	checkout := plan.Step{Ref: builtin("git", "checkout")}
	conditional := checkout
	conditional.If = &plan.Field{}
	for want, steps := range map[bool][]plan.Step{true: {{}, checkout}, false: {{Ref: builtin("script")}, {Ref: ref("", "git", "checkout")}, conditional}} {
		if source.ChecksOut(steps) != want {
			t.Errorf("want %v", want)
		}
	}
}
