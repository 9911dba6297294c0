package glob

import "github.com/bmatcuk/doublestar/v4"

// MatchName reports whether a pattern matches a name that is no file, such as that of an image: "*" stands for any text without slashes,
// "**" for any number of parts between slashes, "?", "[…]" and "{a,b}" for what they stand for in files. A pattern that makes no sense, or has
// more than MaxAlternatives, matches nothing.
func MatchName(pattern, name string) bool {
	if alternatives(pattern) > MaxAlternatives {
		return false
	}
	ok, err := doublestar.Match(collapse(pattern), name)
	return ok && err == nil
}

// ValidName reports whether MatchName can use a pattern.
func ValidName(pattern string) bool {
	return doublestar.ValidatePattern(pattern) && alternatives(pattern) <= MaxAlternatives
}
