package glob

import (
	"strings"
	"unicode/utf8"
)

// Pattern is a pattern as GitLab's server reads it in rules: that of Ruby's File.fnmatch with FNM_PATHNAME, FNM_DOTMATCH and
// FNM_EXTGLOB. "*" and "?" do not match a slash, "**/" matches any number of folders, and braces hold alternatives.
type Pattern struct {
	text         string
	alternatives []string // the pattern without braces, once for each alternative
}

// Compile reads a pattern. Every text is one; the error is about braces with more than MaxAlternatives.
func Compile(text string) (*Pattern, error) {
	p := &Pattern{text: text}
	if !p.expand(text) {
		return nil, errMany
	}
	return p, nil
}

// Match reports whether the pattern stands for the path.
func (p *Pattern) Match(path string) bool {
	for _, a := range p.alternatives {
		if fnmatch(a, path) {
			return true
		}
	}
	return false
}

// expand writes braces out. A text whose braces are not closed matches nothing, as in Ruby. It returns false when that gets too much.
func (p *Pattern) expand(text string) bool {
	open, end := braces(text)
	switch {
	case open < 0:
		p.alternatives = append(p.alternatives, text)
		return len(p.alternatives) <= MaxAlternatives
	case end < 0:
		return true
	}
	for at := open; at < end; {
		start, nest := at+1, 0
		for at = start; at < end && (text[at] != ',' || nest > 0); at++ {
			switch text[at] {
			case '{':
				nest++
			case '}':
				nest--
			case '\\':
				at = min(at+1, end-1)
			}
		}
		if !p.expand(text[:open] + text[start:at] + text[end+1:]) {
			return false
		}
	}
	return true
}

// braces returns where the first braces of a text open and close; -1 for what is not there.
func braces(text string) (open, end int) {
	open = -1
	nest := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{':
			if nest == 0 {
				open = i
			}
			nest++
		case '}':
			if open >= 0 {
				if nest--; nest == 0 {
					return open, i
				}
			}
		case '\\':
			i++
		}
	}
	return open, -1
}

// fnmatch matches segment by segment. Where that fails it goes back to the last "**/" and lets it take one folder more. Going back
// to the last one only is enough, and keeps the time polynomial.
func fnmatch(p, s string) bool {
	var againP, againS string
	recursive := false
	for {
		if strings.HasPrefix(p, "**/") {
			for strings.HasPrefix(p, "**/") {
				p = p[3:]
			}
			againP, againS, recursive = p, s, true
		}
		restP, ok := segment(p, s)
		if ok {
			_, restS, more := strings.Cut(s, "/")
			switch {
			case restP == "" && !more:
				return true
			case restP != "" && more:
				p, s = restP[1:], restS
				continue
			}
		}
		if !recursive {
			return false
		}
		if _, againS, ok = strings.Cut(againS, "/"); !ok {
			return false
		}
		p, s = againP, againS
	}
}

// segment matches the first segments of both, and returns what follows that of the pattern.
func segment(p, s string) (rest string, ok bool) {
	var starP, starS string
	star := false
	for {
		next, matched, end := one(p, s)
		switch {
		case end == matchedEnd:
			return next, true
		case end == failedEnd:
			return "", false
		case end == atStar:
			p, star = next, true
			starP, starS = p, s
		case matched > 0:
			p, s = next, s[matched:]
		case !star:
			return "", false
		default: // the star takes one character more
			starS = starS[width(starS):]
			p, s = starP, starS
		}
	}
}

// What one step of matching a segment came to, besides having matched a character or not.
const (
	goesOn = iota
	matchedEnd
	failedEnd
	atStar
)

// one matches one element of the pattern. It returns the rest of the pattern and how many bytes of the name the element took.
func one(p, s string) (rest string, matched, end int) {
	switch {
	case strings.HasPrefix(p, "*"):
		p = strings.TrimLeft(p, "*")
		if atEnd(unslash(p)) {
			return unslash(p), 0, matchedEnd
		}
		if atEnd(s) {
			return "", 0, failedEnd
		}
		return p, 0, atStar
	case strings.HasPrefix(p, "?"):
		if atEnd(s) {
			return "", 0, failedEnd
		}
		return p[1:], width(s), goesOn
	case strings.HasPrefix(p, "["):
		if atEnd(s) {
			return "", 0, failedEnd
		}
		if rest, ok := bracket(p[1:], s); ok {
			return rest, width(s), goesOn
		}
		return "", 0, goesOn
	}
	p = unslash(p)
	switch {
	case atEnd(s) && atEnd(p):
		return p, 0, matchedEnd
	case atEnd(s):
		return "", 0, failedEnd
	case atEnd(p):
		return "", 0, goesOn
	}
	if n := width(p); strings.HasPrefix(s, p[:n]) {
		return p[n:], n, goesOn
	}
	return "", 0, goesOn
}

// bracket matches one character against a set, whose opening bracket is taken off, and returns what follows the set. A set that
// never ends matches nothing.
func bracket(p, s string) (rest string, ok bool) {
	negated := strings.HasPrefix(p, "!") || strings.HasPrefix(p, "^")
	if negated {
		p = p[1:]
	}
	c := s[:width(s)]
	hit := false
	for p != "" {
		if p[0] == ']' {
			return p[1:], hit != negated
		}
		p = unslash(p)
		low := p[:width(p)]
		p = p[len(low):]
		if len(p) >= 2 && p[0] == '-' && p[1] != ']' {
			p = unslash(p[1:])
			high := p[:width(p)]
			p = p[len(high):]
			hit = hit || c == low || c == high || (code(low) <= code(c) && code(c) <= code(high))
			continue
		}
		hit = hit || c == low
	}
	return "", false
}

// atEnd reports whether a segment ends here.
func atEnd(s string) bool { return s == "" || s[0] == '/' }

// unslash takes off a backslash before another character.
func unslash(p string) string {
	if len(p) > 1 && p[0] == '\\' {
		return p[1:]
	}
	return p
}

// width returns how many bytes the first character has; a byte that is not UTF-8 stands alone.
func width(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// code orders characters. Bytes that are not UTF-8 come behind all that are.
func code(c string) int {
	r, n := utf8.DecodeRuneInString(c)
	if r == utf8.RuneError && n == 1 {
		return utf8.MaxRune + 1 + int(c[0])
	}
	return int(r)
}
