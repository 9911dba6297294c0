package glob

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// GitLab's limits of rules:changes and rules:exists.
const (
	// MaxPatterns is how many patterns one rule may have.
	MaxPatterns = 50
	// MaxComparisons is how many times a pattern is compared with a file. A rule for which that is not enough is taken to match.
	MaxComparisons = 50_000
)

// TooManyError says that a rule has more patterns than GitLab takes.
type TooManyError struct{ Count int }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("there are %d patterns, and a rule can have no more than %d; use \"**\" or braces, or make it several rules", e.Count, MaxPatterns)
}

// Verdict says whether a rule's patterns match, and why.
type Verdict struct {
	Match bool
	// Pattern and File are the first pair that matches.
	Pattern, File string
	// Assumed is set when it counts as a match only because comparing would go beyond MaxComparisons.
	Assumed bool
}

// Changes reports whether any of the changed files matches any of the patterns, as rules:changes does. Variables in the patterns
// must be expanded. The error is a *TooManyError, or about a pattern.
func Changes(patterns, changed []string) (Verdict, error) {
	compiled, err := compileAll(patterns)
	if err != nil || len(changed) == 0 {
		return Verdict{}, err
	}
	if len(compiled)*len(changed) > MaxComparisons {
		return Verdict{Match: true, Assumed: true}, nil
	}
	for _, file := range changed {
		for _, p := range compiled {
			if p.Match(file) {
				return Verdict{Match: true, Pattern: p.text, File: file}, nil
			}
		}
	}
	return Verdict{}, nil
}

// Exists reports whether any of a repository's files matches any of the patterns, as rules:exists does. The files are those that
// Git tracks, no folders, in the order of their bytes. Patterns that are plain names, or like "**/*.go", are not limited. The error
// is a *TooManyError, or about a pattern.
func Exists(patterns, files []string) (Verdict, error) {
	compiled, err := compileAll(patterns)
	if err != nil {
		return Verdict{}, err
	}
	var costly []*Pattern
	for _, p := range compiled {
		switch suffix, isSuffix := p.suffix(); {
		case p.plain():
			if _, found := slices.BinarySearch(files, p.text); found {
				return Verdict{Match: true, Pattern: p.text, File: p.text}, nil
			}
		case isSuffix:
			for _, file := range files {
				if strings.HasSuffix(file, suffix) {
					return Verdict{Match: true, Pattern: p.text, File: file}, nil
				}
			}
		default:
			costly = append(costly, p)
		}
	}
	comparisons := 0
	for _, p := range costly {
		for _, file := range files {
			if comparisons++; comparisons > MaxComparisons {
				return Verdict{Match: true, Assumed: true}, nil
			}
			if p.Match(file) {
				return Verdict{Match: true, Pattern: p.text, File: file}, nil
			}
		}
	}
	return Verdict{}, nil
}

// compileAll reads a rule's patterns, each once.
func compileAll(patterns []string) ([]*Pattern, error) {
	if len(patterns) > MaxPatterns {
		return nil, &TooManyError{Count: len(patterns)}
	}
	var all []*Pattern
	for i, text := range patterns {
		if slices.Contains(patterns[:i], text) {
			continue
		}
		p, err := Compile(text)
		if err != nil {
			return nil, fmt.Errorf("the pattern %q cannot be used: %w", text, err)
		}
		all = append(all, p)
	}
	return all, nil
}

func (p *Pattern) plain() bool { return !strings.ContainsAny(p.text, "*?[{") }

// suffix returns what the names end with that the pattern matches, when that is all that it asks.
func (p *Pattern) suffix() (string, bool) {
	rest, ok := strings.CutPrefix(p.text, "**/*")
	return rest, ok && strings.HasPrefix(rest, ".") && !strings.ContainsAny(rest, "/*?[{")
}

// Wildcard returns what reports whether a file has a name of a pattern in which "**" stands for any text and "*" for one without
// slashes, and nothing else is special. A pattern without a star stands for the file of that name.
func Wildcard(pattern string) func(file string) bool {
	if !strings.Contains(pattern, "*") {
		return func(file string) bool { return file == pattern }
	}
	text := regexp.QuoteMeta(pattern)
	text = strings.ReplaceAll(text, `\*\*`, `.*?`)
	text = strings.ReplaceAll(text, `\*`, `[^/]*?`)
	re, err := regexp.Compile(`(?s)\A` + text + `\z`)
	if err != nil { // the pattern is too long for an expression, or not UTF-8
		return func(string) bool { return false }
	}
	return re.MatchString
}
