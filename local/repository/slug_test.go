package repository_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rungci/rung/local/repository"
)

func TestSlug(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"main": "main", "feature/A_b.c": "feature-a-b-c", "--x--": "x", "": "", "///": "", "Ärger/1": "rger-1", "a\xff\xfeb": "a--b",
		strings.Repeat("a", 62) + "/b": strings.Repeat("a", 62), strings.Repeat("b", 70): strings.Repeat("b", 63),
	} {
		if got := repository.Slug(text); got != want {
			t.Errorf("Slug(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestEnvironmentSlug(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"production", "staging-1", "abcdefghijklmnopqrstuvwx"} {
		if got := repository.EnvironmentSlug(name); got != name {
			t.Errorf("EnvironmentSlug(%q) = %q, want the name itself", name, got)
		}
	}
	hashed := regexp.MustCompile(`^[a-z][a-z0-9-]*-[a-z0-9]{6}$`)
	seen := map[string]string{}
	for _, name := range []string{"Production", "review/a", "review-a!", "1", "", "-*", "a b", "éé", "abcdefghijklmnopqrstuvwxy", "a--b"} {
		got := repository.EnvironmentSlug(name)
		if len(got) > 24 || !hashed.MatchString(got) || strings.Contains(got, "--") {
			t.Errorf("EnvironmentSlug(%q) = %q", name, got)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q have the same slug %q", name, other, got)
		}
		seen[got] = name
	}
	t.Run("what stands before the hash is as GitLab makes it", func(t *testing.T) {
		t.Parallel()
		for name, want := range map[string]string{
			"staging-12345678901234567": "staging-123456789-", "9-staging-123456789012345": "env-9-staging-123-",
			"staging-1234567890123456-": "staging-123456789-", "PRODUCTION": "production-", "review/1-foo": "review-1-foo-", "1/foo": "env-1-foo-",
			"foo--bar": "foo-bar-", "foo**bar": "foo-bar-", "*-foo": "env-foo-", "staging-12345678-01234567": "staging-12345678-", "": "env-",
		} {
			if got := repository.EnvironmentSlug(name); len(got) != len(want)+6 || !strings.HasPrefix(got, want) {
				t.Errorf("EnvironmentSlug(%q) = %q, want %q and a hash", name, got, want)
			}
		}
	})
	t.Run("a dash at the end is taken off", func(t *testing.T) {
		t.Parallel()
		for name, want := range map[string]string{"foo-": "foo", "staging-12345678-": "staging-12345678"} {
			if got := repository.EnvironmentSlug(name); got != want {
				t.Errorf("EnvironmentSlug(%q) = %q, want %q", name, got, want)
			}
		}
	})
}

func TestEnvironmentTier(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"dev": "development", "review/x": "development", "Trunk": "development", "QA-1": "testing", "acceptance": "testing", "stg": "staging",
		"demo": "staging", "Production": "production", "prd": "production", "live": "production", "gprd": "production", "customer": "other", "": "other",
	} {
		if got := repository.EnvironmentTier(name); got != want {
			t.Errorf("EnvironmentTier(%q) = %q, want %q", name, got, want)
		}
	}
}
