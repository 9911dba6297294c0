package config_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rungci/rung/manager/config"
)

// FuzzCheck reads any text: nothing in it ends the program, what is found has a place in it, and edits change what they should, and nothing else.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{
		"", registered, three, entry, `runners = [{name = "a", token = "x"}, {name = "b"}]`, "[[runners]]\n[runners.docker]\npull_policy = 1\n",
		"a.b.c = 1\n[[runners.x]]\n[runners]\n", "[[runners]]\n\"na\\u006de\" = '''x\n'''\ntoken=\"\"\n\n[[runners]]\r\ntoken = 'y' # z",
		"runners = 3", "[[runners]]\n[[runners.docker.services]]\nname = []\n", "[runners.docker]\n\n[[runners]]",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := config.Check("x", []byte(text), none)
		for _, p := range r.Problems {
			if p.Line < 0 || p.Column < 0 || p.Message == "" {
				t.Fatalf("%+v", p)
			}
			_ = p.Render()
		}
		if r.Config == nil {
			return
		}
		for i := range r.Config.Runners {
			if less, err := config.Remove([]byte(text), i); err == nil {
				got := config.Check("x", less, none)
				if got.Config == nil || !sameEntries(got.Config.Runners, slices.Delete(slices.Clone(r.Config.Runners), i, i+1)) {
					t.Fatalf("without entry %d of %q: %q, %v", i, text, less, got.Err())
				}
			}
			token := config.Token{Token: "a\"b\\c\n", Obtained: time.Unix(1e9, 0), Expires: time.Unix(2e9, 0)}
			if other, err := config.SetToken([]byte(text), i, token); err == nil {
				got := config.Check("x", other, none)
				if got.Config == nil {
					t.Fatalf("a new token for entry %d of %q: %q, %v", i, text, other, got.Err())
				}
				want := slices.Clone(r.Config.Runners)
				want[i].Token, want[i].TokenObtainedAt, want[i].TokenExpiresAt = token.Token, token.Obtained.UTC(), token.Expires.UTC()
				if !sameEntries(got.Config.Runners, want) {
					t.Fatalf("a new token for entry %d of %q: %q", i, text, other)
				}
			}
		}
	})
}

// sameEntries compares entries but for where they are in the file.
func sameEntries(a, b []config.Runner) bool {
	return slices.EqualFunc(a, b, func(a, b config.Runner) bool {
		va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
		for i := range va.NumField() {
			if f := va.Type().Field(i); f.IsExported() && !reflect.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
				return false
			}
		}
		return true
	})
}
