package pluginstore

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/mod/semver"
)

// Kinds are what plugins are for: the beginning of the names of their files, as in executor-plugin-NAME.
var Kinds = []string{"executor", "provider", "group"}

// ForeignPrefix begins the names of plugins of fleeting, which cannot be used.
const ForeignPrefix = "fleeting-plugin-"

// Latest is the constraint that the newest version meets.
const Latest = "latest"

// Reference names a plugin: NAME, NAME:CONSTRAINT, REGISTRY/REPOSITORY[:CONSTRAINT] or either with @DIGEST.
type Reference struct {
	// Source is "registry/repository", or a part of a repository without its registry; empty where only a name was given.
	Source string
	// Name is the last part of the repository: "aws", or "group-plugin-aws".
	Name string
	// Constraint is "latest", "1", "1.2" or a full version.
	Constraint string
	// Digest is "sha256:…" of the image; empty: any.
	Digest string
}

// namePattern is what names may be: a part of a repository of a registry, with capitals as in names of files.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// Parse reads a reference.
func Parse(text string) (r Reference, err error) {
	wrong := func(why string) (Reference, error) {
		return Reference{}, fmt.Errorf("%q names no plugin: %s; write NAME, NAME:VERSION, REGISTRY/REPOSITORY:VERSION or NAME@sha256:DIGEST", text, why)
	}
	rest, digest, pinned := strings.Cut(strings.TrimPrefix(text, "oci://"), "@")
	if pinned && !IsDigest(digest) {
		return wrong("a digest is sha256: and 64 hexadecimal digits, in lower case")
	}
	r.Digest = digest
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, '/') {
		rest, r.Constraint = rest[:i], rest[i+1:]
		if !isConstraint(r.Constraint) {
			return wrong(fmt.Sprintf("the version must be latest, 1, 1.2 or 1.2.3, not %q", r.Constraint))
		}
	}
	r.Constraint = cmp.Or(r.Constraint, Latest)
	r.Name = rest[strings.LastIndexByte(rest, '/')+1:]
	if r.Name != rest {
		r.Source = rest
	}
	for part := range strings.SplitSeq(r.Source, "/") {
		if r.Source != "" && (part == "" || part == "." || part == "..") {
			return wrong(`a part of its repository is empty, "." or ".."`)
		}
	}
	if !namePattern.MatchString(r.Name) {
		return wrong("a name is letters, digits, - and _")
	}
	return r, nil
}

// IsReference reports whether a text of a configuration says more than a name.
func IsReference(text string) bool { return strings.ContainsAny(text, ":/@") }

// ShortOf is the name of the plugin that a text of a configuration names, for messages: "aws" of "registry.example.com/ci/aws:1".
func ShortOf(text string) string {
	r, err := Parse(text)
	if err != nil {
		return text
	}
	_, short := Divide(r.Name)
	return short
}

// String is the form that Parse reads.
func (r Reference) String() string {
	text := cmp.Or(r.Source, r.Name)
	if r.Constraint != Latest && r.Constraint != "" {
		text += ":" + r.Constraint
	}
	if r.Digest != "" {
		text += "@" + r.Digest
	}
	return text
}

// HasRegistry reports whether the source begins with a registry's host, as Docker tells them from repositories.
func (r Reference) HasRegistry() bool {
	host, _, found := strings.Cut(r.Source, "/")
	return found && (strings.ContainsAny(host, ".:") || host == "localhost")
}

// Divide parts a name into what the plugin is for and its short name: "group" and "aws" of "group-plugin-aws". kind is empty where the name does not say.
func Divide(name string) (kind, short string) {
	for _, kind := range Kinds {
		if short, ok := strings.CutPrefix(name, kind+"-plugin-"); ok && short != "" {
			return kind, short
		}
	}
	return "", name
}

// IsDigest reports whether a text is "sha256:" and 64 hexadecimal digits in lower case.
func IsDigest(text string) bool {
	digits, ok := strings.CutPrefix(text, "sha256:")
	raw, err := hex.DecodeString(digits)
	return ok && err == nil && len(raw) == 32 && strings.ToLower(digits) == digits
}

// canonical is a version as package semver has it; empty where it is not a full version.
func canonical(version string) string {
	v := "v" + strings.TrimPrefix(version, "v")
	if semver.Canonical(v)+semver.Build(v) != v {
		return ""
	}
	return v
}

// IsVersion reports whether a text is a full version, 1.2.3 or v1.2.3-rc.1.
func IsVersion(text string) bool { return canonical(text) != "" }

func isConstraint(text string) bool {
	v := "v" + strings.TrimPrefix(text, "v")
	return text == Latest || semver.IsValid(v) && semver.Build(v) == ""
}

// Meets reports whether a version meets a constraint. Those before a release meet only their own.
func Meets(version, constraint string) bool {
	v := canonical(version)
	c := "v" + strings.TrimPrefix(constraint, "v")
	switch {
	case version == constraint:
		return true
	case v == "" || v != c && semver.Prerelease(v) != "":
		return false
	case constraint == Latest, v == c:
		return true
	}
	return semver.Canonical(c) != c && (c == semver.Major(v) || c == semver.MajorMinor(v))
}

// Compare orders versions. What is no full version, as that of a plugin that was installed by its digest, is older than every one.
func Compare(a, b string) int {
	return cmp.Or(semver.Compare(canonical(a), canonical(b)), strings.Compare(a, b))
}

// Newest is the newest of some versions that meets a constraint; ok is false where none does.
func Newest(versions []string, constraint string) (newest string, ok bool) {
	for _, version := range versions {
		if Meets(version, constraint) && (!ok || Compare(version, newest) > 0) {
			newest, ok = version, true
		}
	}
	return newest, ok
}

// ErrNone says that no installed plugin is what is wanted.
var ErrNone = errors.New("it is not installed")
