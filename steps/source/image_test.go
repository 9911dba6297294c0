package source_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/lock"
	"github.com/rungci/rung/steps/value"
)

// TestB3LockedImagesHaveADigest refuses the image of an action that is named by a tag, before the first step and when control reaches it.
func TestB3LockedImagesHaveADigest(t *testing.T) {
	t.Parallel()
	s, digest := newServer(), "sha256:"+strings.Repeat("01", 32)
	action := func(image string) *plan.Reference {
		return &plan.Reference{Kind: plan.RefAction, Text: image, Action: image}
	}
	for _, c := range []struct {
		image            string
		locked, recorded bool
		refused          bool
	}{
		{"docker://alpine:3", true, false, true}, {"docker://alpine", true, false, true}, {"docker://alpine:3", false, false, false},
		{"docker://alpine:3", true, true, false}, {"docker://alpine@sha256:01", true, false, true}, {"docker://alpine@" + digest, true, false, false}, {"docker://alpine:3@" + digest, true, false, false},
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

// TestB3ALockThatIsSentRefusesImagesToo holds for a step-runner in a container, which gets the lock of its client and no flags.
func TestB3ALockThatIsSentRefusesImagesToo(t *testing.T) {
	t.Parallel()
	s, digest := newServer(), "sha256:"+strings.Repeat("01", 32)
	closed := func(url string) func(*source.Resolver) {
		return func(r *source.Resolver) {
			r.Lock, r.Local.ParseAction = &lock.File{Closed: []lock.Closed{{URL: url, By: "the client demands it"}}}, r.Local.Parse
		}
	}
	for _, c := range []struct {
		url, image string
		refused    bool
	}{
		{"", "docker://alpine:3", true}, {"", "docker://alpine@" + digest, false},
		{"https://github.com/", "docker://alpine:3", false}, // as GitHub's lock file closes its own place only
	} {
		r := s.resolver(t, t.TempDir(), closed(c.url))
		err := r.Check(&plan.Reference{Kind: plan.RefAction, Text: c.image, Action: c.image}, r.WorkDir)
		if refused := err != nil && strings.Contains(err.Error(), "the client demands it"); refused != c.refused || !refused && err != nil {
			t.Errorf("%s, closed %q: %v", c.image, c.url, err)
		}
	}
}

// TestTheImageOfACommandIsTheOneThatItsProgramRuns holds for all ways in which the program takes its flags: an image that is overlooked would
// count as one that is built, and be pulled without a lock.
func TestTheImageOfACommandIsTheOneThatItsProgramRuns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--image", "a"}, "a"}, {[]string{"--image=a"}, "a"}, {[]string{"-image", "a"}, "a"}, {[]string{"-image=a"}, "a"},
		{[]string{"--image", "a@sha256:01", "--image", "b"}, "b"}, {[]string{"--image", "a", "--image=b"}, "b"},
		{[]string{"--env", "--image", "--image", "b"}, "b"}, {[]string{"--entrypoint", "--image", "--image=b"}, "b"},
		{[]string{"--dockerfile", "f"}, ""}, {[]string{"--dockerfile", "f", "--", "--image", "a"}, ""}, {[]string{"--unknown", "--image", "a"}, ""},
	} {
		command := append([]string{"step-runner", "builtin", "docker/action"}, c.args...)
		if image, what, is := source.ContainerCommand(command, value.Value{}); !is || image != c.want || image != "" && what != "docker://"+image {
			t.Errorf("%q: the image is %q of %q, %t, want %q", c.args, image, what, is, c.want)
		}
		exec := &plan.Exec{}
		for _, word := range command {
			exec.Command = append(exec.Command, plan.Field{Value: value.OfString(word)})
		}
		if image := source.ImageOf(&plan.Component{Definition: plan.Definition{Exec: exec}}); image != c.want {
			t.Errorf("%q: a component with this command has the image %q, want %q", c.args, image, c.want)
		}
	}
}
