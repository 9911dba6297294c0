// Package lazyregexp compiles regular expressions when they are first used. A program that runs for ten milliseconds should
// not spend one of them on patterns that it will not need.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression that compiles itself. It is safe for concurrent use.
type Regexp func() *regexp.Regexp

// New returns the pattern, which must be valid: a wrong one panics when it is first used.
func New(pattern string) Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// MatchString reports whether the text holds a match.
func (r Regexp) MatchString(text string) bool { return r().MatchString(text) }
