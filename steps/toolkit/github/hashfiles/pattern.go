package hashfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

const windows = runtime.GOOS == "windows"

// pattern is one pattern, as a whole path.
type pattern struct {
	negated     bool
	foldersOnly bool   // it ends in a slash
	root        string // the folders before its first special character
	names       []name // of the path, from the file system's root
}

// name is what a pattern says of one name of a path.
type name struct {
	any     bool // "**": any number of names
	one     bool // one name, whatever it is
	literal string
	special *regexp.Regexp // nil for a literal
}

// parse reads a pattern. A pattern stands also for what is below what it finds, which is a second one.
func parse(workspace, text string) ([]*pattern, error) {
	p := &pattern{}
	written := text
	for strings.HasPrefix(text, "!") {
		p.negated = !p.negated
		text = strings.TrimSpace(text[1:])
	}
	if text == "" {
		return nil, fmt.Errorf("the pattern %q is empty", written)
	}
	if windows {
		text = strings.ReplaceAll(text, `\`, "/")
	}
	p.foldersOnly = strings.HasSuffix(text, "/")
	base, rest, err := anchor(workspace, text)
	if err != nil {
		return nil, err
	}
	for _, part := range strings.Split(filepath.ToSlash(base), "/") {
		p.names = append(p.names, name{literal: part})
	}
	if len(p.names) == 2 && p.names[1].literal == "" { // the root itself
		p.names = p.names[:1]
	}
	prefix := base
	literally := true
	for i, part := range strings.FieldsFunc(rest, func(r rune) bool { return r == '/' }) {
		n := parseName(part)
		if n.special == nil && !n.any {
			if n.literal == "." && i == 0 {
				continue
			}
			if n.literal == "." || n.literal == ".." {
				return nil, fmt.Errorf("the pattern %q is invalid: a folder in it must not be %q", written, n.literal)
			}
		} else {
			literally = false
		}
		if literally {
			prefix = filepath.Join(prefix, n.literal)
		}
		p.names = append(p.names, n)
	}
	p.root = prefix
	patterns := []*pattern{p}
	if p.foldersOnly || !p.names[len(p.names)-1].any {
		below := append(p.names[:len(p.names):len(p.names)], name{one: true}, name{any: true})
		patterns = append(patterns, &pattern{negated: p.negated, root: p.root, names: below})
	}
	return patterns, nil
}

// anchor returns the folder that a pattern is relative to, and the pattern from there on.
func anchor(workspace, text string) (base, rest string, err error) {
	switch {
	case text == "~" || strings.HasPrefix(text, "~/"):
		home, err := os.UserHomeDir()
		if err != nil {
			return "", "", fmt.Errorf("the pattern %q needs a home folder: %w", text, err)
		}
		return home, text[1:], nil
	case windows && len(text) > 2 && text[1] == ':' && text[2] == '/':
		return filepath.FromSlash(text[:3]), text[3:], nil
	case strings.HasPrefix(text, "/"):
		return filepath.VolumeName(workspace) + string(filepath.Separator), text[1:], nil
	default:
		return workspace, text, nil
	}
}

// parseName reads the pattern of one name. "*" is any text, "?" any character, [a-z] and [!a-z] one of a set, and a backslash takes the
// meaning of what follows, but on Windows.
func parseName(text string) name {
	if text == "**" {
		return name{any: true}
	}
	var expression, literal strings.Builder
	special := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && !windows && i+1 < len(text):
			i++
			literal.WriteByte(text[i])
			expression.WriteString(regexp.QuoteMeta(text[i : i+1]))
			continue
		case c == '*':
			special = true
			expression.WriteString(".*")
			continue
		case c == '?':
			special = true
			expression.WriteString(".")
			continue
		case c == '[':
			if set, only, end := parseSet(text, i); end > 0 {
				expression.WriteString(set)
				literal.WriteString(only)
				special = special || only == ""
				i = end
				continue
			}
		}
		literal.WriteByte(c)
		if c < 0x80 {
			expression.WriteString(regexp.QuoteMeta(text[i : i+1]))
		} else {
			expression.WriteByte(c)
		}
	}
	if !special {
		return name{literal: literal.String()}
	}
	flags := "(?s)"
	if windows {
		flags = "(?is)"
	}
	re, err := regexp.Compile(flags + `\A(?:` + expression.String() + `)\z`)
	if err != nil { // a set that is none, or bytes that are no text
		return name{literal: text}
	}
	return name{special: re}
}

// parseSet reads the set that begins at text[start]: the expression for it, its character if it has only one, and where it ends; 0 if it
// does not.
func parseSet(text string, start int) (expression, only string, end int) {
	i := start + 1
	var b strings.Builder
	b.WriteByte('[')
	if i < len(text) && (text[i] == '!' || text[i] == '^') {
		b.WriteByte('^')
		i++
	}
	first := i
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c == ']' && i > first:
			if inner := text[start+1 : i]; len(inner) == 1 {
				return regexp.QuoteMeta(inner), inner, i
			}
			b.WriteByte(']')
			return b.String(), "", i
		case c == '\\' && !windows && i+1 < len(text):
			i++
			b.WriteString(`\` + text[i:i+1])
		case c == '[' || c == ']' || c == '\\':
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
	}
	return "", "", 0
}

func (n name) match(text string) bool {
	switch {
	case n.one:
		return true
	case n.special != nil:
		return text != "" && n.special.MatchString(text)
	case windows:
		return strings.EqualFold(n.literal, text)
	default:
		return n.literal == text
	}
}

// match reports whether the pattern stands for the path.
func (p *pattern) match(path []string) bool {
	at, back, mark := 0, -1, 0 // back is the last "**" that was passed, and mark how much of the path it took
	for i := 0; i < len(path); {
		switch {
		case at < len(p.names) && p.names[at].any:
			back, mark = at, i
			at++
		case at < len(p.names) && p.names[at].match(path[i]):
			at++
			i++
		case back >= 0:
			mark++
			at, i = back+1, mark
		default:
			return false
		}
	}
	for at < len(p.names) && p.names[at].any {
		at++
	}
	return at == len(p.names)
}

// leadsTo reports whether the pattern may stand for something below the path.
func (p *pattern) leadsTo(path []string) bool {
	for i, n := range p.names {
		switch {
		case n.any || i == len(path):
			return true
		case !n.match(path[i]):
			return false
		}
	}
	return false
}
