package when

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// MaxPathPattern is how long the pattern of `regexp:` may be, in characters, before and after its variables are expanded.
const MaxPathPattern = 255

// MaxMatchedFiles is how many files `regexp:` is held against. With more of them GitLab takes it to match.
const MaxMatchedFiles = 50_000

// CompilePaths compiles the pattern of `changes:regexp` and `exists:regexp`. As in Ruby, ^ and $ are for lines. What Ruby has and
// RE2 has not, such as looking ahead, is an error.
func CompilePaths(text string) (*regexp.Regexp, error) {
	if n := utf8.RuneCountInString(text); n > MaxPathPattern {
		return nil, fmt.Errorf("the pattern is %d characters long, and the limit is %d", n, MaxPathPattern)
	}
	for _, look := range []string{"(?!", "(?=", "(?<!", "(?<="} {
		if strings.Contains(text, look) {
			return nil, fmt.Errorf("the pattern uses the look-around %s, which RE2 does not support (GitLab uses Ruby here)", look)
		}
	}
	re, err := regexp.Compile("(?m)" + text)
	var bad *syntax.Error
	if errors.As(err, &bad) {
		return nil, fmt.Errorf("the pattern is not one of RE2: %s: %s", bad.Code, bad.Expr)
	}
	return re, err
}

// patterns are what a reason names: the patterns of files, or the regular expression.
func (c *Changes) patterns() []string { return patternsOf(c.Paths, c.Regexp) }

func (e *Exists) patterns() []string { return patternsOf(e.Paths, e.Regexp) }

func patternsOf(paths []string, pattern string) []string {
	if pattern != "" {
		return []string{"/" + pattern + "/"}
	}
	return paths
}
