package oci

import (
	"strings"

	"golang.org/x/mod/semver"
)

// latest is the tag of the newest version.
const latest = "latest"

// version is a full version, "1.2.3" or "v1.2.3-rc.1".
type version struct {
	prefix string // "v" or ""
	canon  string // always with a "v", as package semver has it
}

// parseVersion reads a full version; ok is false for every other tag.
func parseVersion(tag string) (v version, ok bool) {
	rest, hasPrefix := strings.CutPrefix(tag, "v")
	if hasPrefix {
		v.prefix = "v"
	}
	v.canon = "v" + rest
	return v, semver.Canonical(v.canon) == v.canon // "1.2" is valid, but not canonical
}

// IsVersion reports whether a tag is a full version. What such a tag names is not meant to change; other tags move.
func IsVersion(tag string) bool {
	_, ok := parseVersion(tag)
	return ok
}

// Tags returns the tags that publishing a version sets, the version itself first: also "1.2", "1" and "latest", each where no
// newer version is among the existing tags that it would be for. Versions before a release, and what is not a full version, have
// their own tag only. Existing tags that are no versions do not count.
func Tags(tag string, existing []string) []string {
	tags := []string{tag}
	v, ok := parseVersion(tag)
	if !ok || semver.Prerelease(v.canon) != "" {
		return tags
	}
	minor, major, newest := true, true, true
	for _, other := range existing {
		o, ok := parseVersion(other)
		if !ok || semver.Prerelease(o.canon) != "" || semver.Compare(o.canon, v.canon) <= 0 {
			continue
		}
		newest = false
		major = major && semver.Major(o.canon) != semver.Major(v.canon)
		minor = minor && semver.MajorMinor(o.canon) != semver.MajorMinor(v.canon)
	}
	if minor {
		tags = append(tags, v.prefix+strings.TrimPrefix(semver.MajorMinor(v.canon), "v"))
	}
	if major {
		tags = append(tags, v.prefix+strings.TrimPrefix(semver.Major(v.canon), "v"))
	}
	if newest {
		tags = append(tags, latest)
	}
	return tags
}
