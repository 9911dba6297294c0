package source_test

import (
	"errors"
	"testing"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
)

// TestB3LockedImagesHaveADigest refuses the image of an action that is named by a tag, before the first step and when control reaches it.
func TestB3LockedImagesHaveADigest(t *testing.T) {
	t.Parallel()
	s := newServer()
	action := func(image string) *plan.Reference {
		return &plan.Reference{Kind: plan.RefAction, Text: image, Action: image}
	}
	for _, c := range []struct {
		image            string
		locked, recorded bool
		refused          bool
	}{
		{"docker://alpine:3", true, false, true}, {"docker://alpine", true, false, true}, {"docker://alpine:3", false, false, false},
		{"docker://alpine:3", true, true, false}, {"docker://alpine@sha256:0123", true, false, false}, {"docker://alpine:3@sha256:0123", true, false, false},
	} {
		r := s.resolver(t, t.TempDir(), func(r *source.Resolver) {
			r.Locked, r.Recorded, r.Local.ParseAction = c.locked, c.recorded, r.Local.Parse
		})
		for what, err := range map[string]error{"check": r.Check(action(c.image), r.WorkDir), "load": func() error { _, err := r.Load(t.Context(), action(c.image), r.WorkDir); return err }()} {
			var denied *source.DeniedError
			if errors.As(err, &denied) != c.refused {
				t.Errorf("%s %s, locked %t, in a replay %t: %v", what, c.image, c.locked, c.recorded, err)
			}
		}
	}
}
