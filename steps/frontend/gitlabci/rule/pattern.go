package rule

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// Pattern is a compiled /pattern/flags. It is safe for concurrent use.
type Pattern struct {
	text string
	re   *regexp.Regexp
	size int // instructions, roughly
}

// flags are what may follow a pattern.
const flags = "imsU"

// patternEnd returns where the pattern that begins at text[at] ends, flags included. The closing slash is the first one that
// no backslash stands before, but not earlier than behind two characters. GitLab finds it so.
func patternEnd(text string, at int) (int, *Error) {
	body := text[at+1:]
	slash := -1
	for i := 0; i < len(body) && slash < 0; i++ {
		if body[i] == '/' && (i == 0 || body[i-1] != '\\') {
			slash = i
		}
	}
	switch {
	case slash < 0:
		return 0, newError(text, at, len(text), "end it with /; write / inside of it as \\/", "the pattern is not closed")
	case slash == 0:
		return 0, newError(text, at, at+2, "write == \"\" or == null for an empty text", "the pattern is empty")
	case slash+1 < len(body) && body[slash+1] == '/' && (slash < 2 || body[slash-2:slash] != `\/`):
		slash++ // of two slashes the second one ends the pattern, and the first one belongs to it
	case slash == 1:
		c := body[:1]
		return 0, newError(text, at, at+3, fmt.Sprintf("write /%s+/ or == %q", c, c), "a pattern of one character is not allowed: GitLab wants two at least")
	}
	end := at + 1 + slash + 1
	for end < len(text) && strings.IndexByte(flags, text[end]) >= 0 {
		end++
	}
	if end < len(text) && isWord(text[end]) {
		return 0, newError(text, end, end+1, "the flags are i, m, s and U; write / inside of a pattern as \\/", "%s is not a flag of a pattern", quote(text[end:end+1]))
	}
	return end, nil
}

// ParsePattern compiles a text of the form /pattern/flags. ok is false when it has another form; err is set when it has that
// form, and its pattern is not valid.
func ParsePattern(text string) (p *Pattern, ok bool, err error) {
	// GitLab takes the backslashes off before it looks at the form, and any line of the text may have it.
	for line := range strings.Lines(strings.ReplaceAll(text, `\/`, "/")) {
		line = strings.TrimSuffix(line, "\n")
		end := strings.LastIndexByte(line, '/')
		if !strings.HasPrefix(line, "/") || end < 1 || strings.Trim(line[end+1:], flags) != "" {
			continue
		}
		p, err := compile(text, line[1:end], line[end+1:])
		return p, true, err
	}
	return nil, false, nil
}

// compile compiles the inside of a pattern.
func compile(text, source, flags string) (*Pattern, error) {
	if len(source) > MaxPatternSize {
		return nil, fmt.Errorf("it is longer than %d bytes", MaxPatternSize)
	}
	if flags != "" {
		source = "(?" + flags + ")" + source
	}
	size := len(source)
	if strings.Contains(source, "{") { // only a counted repetition makes a program longer than its text
		parsed, err := syntax.Parse(source, syntax.Perl)
		if err != nil {
			return nil, patternError(err)
		}
		if size = max(size, sizeOf(parsed)); size > MaxPatternSize {
			return nil, fmt.Errorf("it is too large: its repetitions make %d instructions, and %d are allowed", size, MaxPatternSize)
		}
	}
	re, err := regexp.Compile(source)
	if err != nil {
		return nil, patternError(err)
	}
	return &Pattern{text: text, re: re, size: size}, nil
}

// sizeOf returns about how many instructions the pattern becomes, without making them. The syntax package bounds both its
// nesting, and the product of nested counts at 1,000.
func sizeOf(re *syntax.Regexp) int {
	size := 1
	if re.Op == syntax.OpLiteral {
		size = len(re.Rune)
	}
	for _, sub := range re.Sub {
		size += sizeOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Min, re.Max)
	}
	return size
}

// patternError is the error of the regexp package without its prefix.
func patternError(err error) error {
	var bad *syntax.Error
	if errors.As(err, &bad) {
		return fmt.Errorf("%s: %s", bad.Code, excerpt(bad.Expr))
	}
	return err
}

// Match reports whether the text holds a match. It fails when pattern and text are so large that looking would take long.
func (p *Pattern) Match(text string) (bool, error) {
	if p.size*len(text) > MaxMatchWork { // at most 50,000 times the length of a text in memory: no overflow
		return false, fmt.Errorf("pattern and text are too large: %d instructions for %d bytes", p.size, len(text))
	}
	return p.re.MatchString(text), nil
}

// String returns the pattern as it was written.
func (p *Pattern) String() string { return p.text }
