// Package cachekey names caches: it cleans keys, computes those that depend on files, and says where a cache of a key is kept.
//
// The names are those that GitLab and its runner give, so that a cache which one of them made is found.
package cachekey

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// ErrEmpty says that nothing is left of a key once all that a key cannot have is taken away.
var ErrEmpty = errors.New("nothing is left of it but separators and dots; use letters, digits or a variable that has a value")

// DefaultServer is the key of a cache that is written without one, as GitLab sends it.
const DefaultServer = "default"

// Default is the key for a job that has none: what a runner takes when the server sends no key.
func Default(job, ref string) string { return job + "/" + ref }

// Sanitize returns a key that is a relative path of plain names, since caches are kept in folders. Backslashes, and slashes and dots
// that are written as in an address, are read as what they stand for; ".." takes back the name before it and never more; spaces and
// slashes at the end are taken off. A clean key stays as it is. An empty one does, too: no key is not a wrong key. The error is ErrEmpty.
func Sanitize(raw string) (string, error) {
	if raw == "" {
		return "", nil
	}
	key := raw
	for { // of "a/.. " the space comes off, which leaves something to take back; a clean key must stay as it is
		next := sanitizeOnce(key)
		if next == key {
			break
		}
		key = next
	}
	if key == "" {
		return "", fmt.Errorf("the cache key %q cannot be used: %w", raw, ErrEmpty)
	}
	return key, nil
}

var written = strings.NewReplacer("%2f", "/", "%2F", "/", "%2e", ".", "%2E", ".", `\`, "/")

func sanitizeOnce(key string) string {
	var names []string
	for name := range strings.SplitSeq(written.Replace(key), "/") {
		switch name {
		case "", ".":
		case "..":
			names = names[:max(0, len(names)-1)]
		default:
			names = append(names, name)
		}
	}
	for len(names) > 0 {
		last := &names[len(names)-1]
		if *last = strings.TrimRightFunc(*last, unicode.IsSpace); *last != "" {
			break
		}
		names = names[:len(names)-1]
	}
	return strings.Join(names, "/")
}

// Suffixed returns a key as GitLab sends it to runners: caches of protected branches are kept apart, unless a cache says unprotect, and
// clearing all caches counts a number up.
func Suffixed(key string, generation int, protected, unprotect bool) string {
	if generation > 0 {
		key = fmt.Sprintf("%s-%d", key, generation)
	}
	if protected && !unprotect {
		return key + protectedSuffix
	}
	return key + "-non_protected"
}

const protectedSuffix = "-protected"

// Candidate is a key to look for a cache under.
type Candidate struct {
	Key string // clean
	Raw string // as it was before
	// Fallback is set for all but the cache's own key: such a cache can be old, and is not what is saved again.
	Fallback bool
}

// Candidates returns the keys to look for a cache under, in order: its own, its fallback keys, and at last the global one, which is
// the value of CACHE_FALLBACK_KEY. Each is there once. What is wrong with a key is among the problems, and that key is left out.
func Candidates(key string, fallbacks []string, global string) (all []Candidate, problems []error) {
	add := func(raw string, fallback bool) {
		clean, err := Sanitize(raw)
		if err != nil {
			problems = append(problems, err)
			return
		}
		for _, c := range all {
			if c.Key == clean {
				return
			}
		}
		if clean != "" {
			all = append(all, Candidate{Key: clean, Raw: raw, Fallback: fallback})
		}
	}
	add(key, false)
	for _, f := range fallbacks {
		add(f, true)
	}
	if clean, err := Sanitize(global); err == nil && strings.HasSuffix(clean, protectedSuffix) {
		problems = append(problems, fmt.Errorf("CACHE_FALLBACK_KEY %q is ignored: it ends in %s, and a job must not choose the caches of protected branches by it", global, protectedSuffix))
	} else {
		add(global, true)
	}
	return all, problems
}
