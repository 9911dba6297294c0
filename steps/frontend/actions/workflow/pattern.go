package workflow

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// maxPattern is how long one pattern of a filter may be, in bytes.
const maxPattern = 4 << 10

// pattern is one line of a filter, such as "releases/**" or "!docs/**".
type pattern struct {
	text  string
	minus bool // it begins with "!": what it matches is out again
	re    *regexp.Regexp
}

// parsePattern reads a pattern of GitHub's filters: * is any text without slashes, ** any text, ? and + repeat the character before them, [ ]
// is one of several letters and digits, and \ takes a character as it is.
func parsePattern(text string) (pattern, error) {
	p := pattern{text: text}
	if len(text) > maxPattern {
		return p, fmt.Errorf("the pattern is longer than %d bytes", maxPattern)
	}
	rest, minus := strings.CutPrefix(text, "!")
	p.minus = minus
	if rest == "" {
		return p, errors.New("the pattern is empty")
	}
	expression, err := translate([]rune(rest))
	if err != nil {
		return p, err
	}
	if p.re, err = regexp.Compile(`\A(?s:` + expression + `)\z`); err != nil {
		return p, fmt.Errorf("the pattern %q cannot be used: %w", shorten(text), err)
	}
	return p, nil
}

// translate writes a pattern as a regular expression.
func translate(in []rune) (string, error) {
	var out strings.Builder
	repeats := false // the last thing written can be repeated
	for i := 0; i < len(in); i++ {
		c := in[i]
		switch {
		case c == '*' && i+1 < len(in) && in[i+1] == '*':
			for i+1 < len(in) && in[i+1] == '*' {
				i++
			}
			begins := i < 2 || in[i-2] == '/'
			if begins && i+1 < len(in) && in[i+1] == '/' { // **/ is any folder, or none
				i++
				out.WriteString("(?:.*/)?")
			} else {
				out.WriteString(".*")
			}
			repeats = false
			continue
		case c == '*':
			out.WriteString("[^/]*")
			repeats = false
			continue
		case c == '?' || c == '+':
			if !repeats {
				return "", fmt.Errorf("the %c in the pattern repeats the character before it, but there is none", c)
			}
			out.WriteRune(c)
			repeats = false
			continue
		case c == '[':
			class, next, err := readClass(in, i)
			if err != nil {
				return "", err
			}
			out.WriteString(class)
			i = next
		case c == '\\':
			if i++; i == len(in) {
				return "", errors.New(`the \ at the end of the pattern has nothing to escape`)
			}
			out.WriteString(regexp.QuoteMeta(string(in[i])))
		default:
			out.WriteString(regexp.QuoteMeta(string(c)))
		}
		repeats = true
	}
	return out.String(), nil
}

// readClass reads [a-z0-9] from the bracket at i on, and returns where it ends.
func readClass(in []rune, i int) (class string, end int, err error) {
	var out strings.Builder
	out.WriteByte('[')
	for j := i + 1; j < len(in); j++ {
		switch c := in[j]; {
		case c == ']' && j > i+1:
			out.WriteByte(']')
			return out.String(), j, nil
		case c == '-' && j > i+1 && j+1 < len(in) && in[j+1] != ']':
			if in[j-1] >= in[j+1] || !alphanumeric(in[j+1]) {
				return "", 0, fmt.Errorf("the range %s in the pattern is empty", string(in[j-1:j+2]))
			}
			out.WriteByte('-')
		case alphanumeric(c):
			out.WriteRune(c)
		default:
			return "", 0, fmt.Errorf("the brackets of a pattern hold letters, digits and ranges of them, not %q", c)
		}
	}
	return "", 0, errors.New("the [ in the pattern is not closed")
}

func alphanumeric(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// picks reports whether patterns pick a name: the last one that matches decides.
func picks(patterns []pattern, name string) bool {
	picked := false
	for _, p := range patterns {
		if p.minus == picked && p.re.MatchString(name) {
			picked = !p.minus
		}
	}
	return picked
}
