package repository

import (
	"crypto/sha256"
	"math/big"
	"strings"
)

// Lengths of slugs, in characters: those that names of hosts, and of Kubernetes' objects, can have.
const (
	maxSlug            = 63
	maxEnvironmentSlug = 24
	slugSuffix         = 6
)

// Slug makes a name for addresses of a text, as GitLab's CI_…_SLUG: small letters, digits and dashes.
func Slug(text string) string {
	slug := dashed(text)
	return strings.Trim(slug[:min(len(slug), maxSlug)], "-")
}

// dashed is a text in small letters, with a dash for every character that is not a letter or digit of ASCII.
func dashed(text string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(text))
}

// EnvironmentSlug is CI_ENVIRONMENT_SLUG: it begins with a letter and, unless the name is one itself, ends with a hash of it, so that
// environments with names that are alike have different ones.
func EnvironmentSlug(name string) string {
	slug := dashed(name)
	if slug == "" || slug[0] < 'a' || slug[0] > 'z' {
		slug = "env-" + slug
	}
	for strings.Contains(slug, "--") {
		slug = strings.ReplaceAll(slug, "--", "-")
	}
	if len(slug) <= maxEnvironmentSlug && slug == name {
		return strings.TrimSuffix(slug, "-")
	}
	slug = slug[:min(len(slug), maxEnvironmentSlug-slugSuffix-1)]
	if !strings.HasSuffix(slug, "-") {
		slug += "-"
	}
	return slug + lastDigits(sha256.Sum256([]byte(name)))
}

// lastDigits are those of a hash as a number of base 36.
func lastDigits(sum [sha256.Size]byte) string {
	digits := new(big.Int).SetBytes(sum[:]).Text(36)
	return digits[max(0, len(digits)-slugSuffix):]
}

// tierSigns are parts of environments' names, and the tier that they stand for.
var tierSigns = []struct {
	tier  string
	signs []string
}{
	{"development", []string{"dev", "review", "trunk"}},
	{"testing", []string{"test", "tst", "int", "accept", "acpt", "qa", "qc", "control", "quality"}},
	{"staging", []string{"stag", "stg", "model", "modl", "pre", "demo", "non"}},
	{"production", []string{"prod", "prd", "live"}},
}

// EnvironmentTier guesses the deployment tier of an environment from its name, as GitLab does where the file does not say.
func EnvironmentTier(name string) string {
	name = strings.ToLower(name)
	for _, t := range tierSigns {
		for _, sign := range t.signs {
			if strings.Contains(name, sign) {
				return t.tier
			}
		}
	}
	return "other"
}
