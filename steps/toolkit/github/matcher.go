package github

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"strings"
)

// Limits of problem matchers.
const (
	// MaxMatcherFile bounds the file of problem matchers, in bytes.
	MaxMatcherFile = 1 << 20
	// MaxMatchers bounds the problem matchers of a job, and the patterns of each.
	MaxMatchers = 100
	// MaxMatcherWork bounds what one pattern does with one line: the instructions of its expression times the bytes of the line. It skips
	// lines that are longer. A line of MaxMatchedLine and a usual expression, of some hundred instructions, are within it.
	MaxMatcherWork = 32 << 20
)

// matcher finds problems in a log, over one or more lines.
type matcher struct {
	Owner    string     `json:"owner"`
	Severity string     `json:"severity"`
	FromPath string     `json:"fromPath"`
	Patterns []*pattern `json:"pattern"`
}

// pattern is what one line of a problem looks like. The numbers are groups of the expression.
type pattern struct {
	Regexp   string `json:"regexp"`
	File     *int   `json:"file"`
	Line     *int   `json:"line"`
	Column   *int   `json:"column"`
	Severity *int   `json:"severity"`
	Code     *int   `json:"code"`
	Message  *int   `json:"message"`
	FromPath *int   `json:"fromPath"`
	Loop     bool   `json:"loop"`

	compiled *regexp.Regexp
	longest  int // the line that it looks at, in bytes
}

// groups are the numbers of a pattern, in the order of found's texts.
func (p *pattern) groups() [fieldCount]*int {
	return [fieldCount]*int{p.File, p.Line, p.Column, p.Severity, p.Code, p.Message, p.FromPath}
}

// The texts that patterns find.
const (
	foundFile = iota
	foundLine
	foundColumn
	foundSeverity
	foundCode
	foundMessage
	foundFromPath
	fieldCount
)

var fieldNames = [fieldCount]string{"file", "line", "column", "severity", "code", "message", "fromPath"}

// errExpression is that of an expression that cannot be matched here. Lookarounds and backreferences take more than linear time.
var errExpression = errors.New("the expression cannot be used (lookarounds and backreferences are not known)")

// parseMatchers reads and checks a file of problem matchers. Matchers whose expressions cannot be used come apart, each with the reason.
func parseMatchers(data []byte) (good []*matcher, refused []error, err error) {
	var config struct {
		Matchers []*matcher `json:"problemMatcher"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(string(data), "\uFEFF")), &config); err != nil {
		return nil, nil, err
	}
	owners := map[string]bool{}
	for _, m := range config.Matchers {
		if m == nil {
			return nil, nil, errors.New("a matcher is null")
		}
		err := m.check()
		if name := strings.ToLower(m.Owner); err == nil || errors.Is(err, errExpression) {
			if owners[name] {
				return nil, nil, fmt.Errorf("two matchers have the owner %q", m.Owner)
			}
			owners[name] = true
		}
		switch {
		case errors.Is(err, errExpression):
			refused = append(refused, err)
		case err != nil:
			return nil, nil, err
		default:
			good = append(good, m)
		}
	}
	return good, refused, nil
}

// check compiles a matcher's expressions, and says what is wrong with it.
func (m *matcher) check() error {
	switch {
	case m.Owner == "":
		return errors.New("a matcher has no owner")
	case m.Severity != "" && level(m.Severity) == "":
		return fmt.Errorf("the matcher %q has the severity %q, which must be one of error, warning, notice", m.Owner, m.Severity)
	case len(m.Patterns) == 0:
		return fmt.Errorf("the matcher %q has no pattern", m.Owner)
	case len(m.Patterns) > MaxMatchers:
		return fmt.Errorf("the matcher %q has more than %d patterns", m.Owner, MaxMatchers)
	}
	var set [fieldCount]bool
	var unusable error
	for i, p := range m.Patterns {
		if p == nil {
			return fmt.Errorf("the matcher %q: pattern %d is null", m.Owner, i+1)
		}
		err := p.check(&set, i > 0 && i == len(m.Patterns)-1)
		switch {
		case errors.Is(err, errExpression):
			unusable = fmt.Errorf("the problem matcher %q is left out: %w", m.Owner, err)
		case err != nil:
			return fmt.Errorf("the matcher %q: pattern %d: %w", m.Owner, i+1, err)
		}
	}
	if !set[foundMessage] {
		return fmt.Errorf("the matcher %q: no pattern sets 'message'", m.Owner)
	}
	return unusable
}

// check compiles the pattern. set holds what the patterns before it set.
func (p *pattern) check(set *[fieldCount]bool, mayLoop bool) error {
	if p.Loop && !mayLoop {
		return errors.New("only the last of several patterns may set 'loop'")
	}
	if p.Loop && p.Message == nil {
		return errors.New("the pattern with 'loop' must set 'message'")
	}
	re, err := p.compile()
	if err != nil {
		err = fmt.Errorf("%w: %w", errExpression, err)
	}
	for i, number := range p.groups() {
		switch {
		case number == nil:
			continue
		case set[i]:
			return fmt.Errorf("%q is set twice", fieldNames[i])
		case *number < 0 || re != nil && *number > re.NumSubexp():
			return fmt.Errorf("%q is %d, and the expression has no such group", fieldNames[i], *number)
		}
		set[i] = true
	}
	p.compiled = re
	return err
}

// compile compiles the expression, and says how long lines may be for it.
func (p *pattern) compile() (*regexp.Regexp, error) {
	text := translate(p.Regexp)
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	p.longest = MaxMatcherWork / len(program.Inst)
	return re, nil
}

// translate writes the escapes of ECMAScript's that RE2 spells otherwise.
func translate(text string) string {
	var b strings.Builder
	inClass := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '\\' || i+1 == len(text) {
			inClass = c == '[' || inClass && c != ']'
			b.WriteByte(c)
			continue
		}
		i++
		switch next := text[i]; {
		case next == 'u' && i+4 < len(text):
			b.WriteString(`\x{` + text[i+1:i+5] + `}`)
			i += 4
		case next == 'c' && i+1 < len(text):
			i++
			fmt.Fprintf(&b, `\x%02x`, text[i]&0x1f)
		case next == 'b' && inClass:
			b.WriteString(`\x08`)
		case next == 's' && inClass:
			b.WriteString(`\s\v`) // RE2's \s has no vertical tab
		case next == 's':
			b.WriteString(`[\s\v]`)
		case next == 'S' && !inClass:
			b.WriteString(`[^\s\v]`)
		default:
			b.WriteString(`\` + string(next))
		}
	}
	return b.String()
}

// loadMatchers reads the file that a command names.
func (s *Session) loadMatchers(name string) (good []*matcher, refused []error, err error) {
	path := s.folders().hostPath(name)
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.process.WorkDir, name)
		if _, err := os.Stat(path); err != nil && s.process.ActionDir != "" {
			path = filepath.Join(s.process.ActionDir, name)
		}
	}
	data, err := readRegular(path, MaxMatcherFile)
	if err == nil {
		good, refused, err = parseMatchers(data)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("problem matchers in %s: %w", name, err)
	}
	return good, refused, nil
}

func addMatcher(f *filter, c command) error {
	if c.data == "" {
		f.warn("::add-matcher:: has no file")
		return nil
	}
	good, refused, err := f.session.loadMatchers(c.data)
	if err != nil {
		return err
	}
	for _, reason := range refused {
		f.warn(reason.Error())
	}
	return f.session.job.changeMatchers(owners(good), good)
}

func removeMatcher(f *filter, c command) error {
	owner := c.properties["owner"]
	if (owner == "") == (c.data == "") {
		f.warn("::remove-matcher:: takes an owner or a file")
		return nil
	}
	gone := []string{owner}
	if owner == "" {
		good, _, err := f.session.loadMatchers(c.data)
		if err != nil {
			return err
		}
		gone = owners(good)
	}
	return f.session.job.changeMatchers(gone, nil)
}

func owners(matchers []*matcher) []string {
	var names []string
	for _, m := range matchers {
		names = append(names, m.Owner)
	}
	return names
}
