package federation

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/rungci/rung/steps/diag"
)

// Limits of a file of sources.
const (
	MaxFileSize = 1 << 20 // bytes
	MaxEntries  = 10_000
)

// parser reads one file. The library's decoder says whether it is TOML at all; its parser, which has the place of everything, is
// what entries are made from.
type parser struct {
	file     *file
	text     string
	toml     unstable.Parser
	current  *entry
	started  bool // a table has begun, perhaps one that is not known
	problems diag.List
}

// parse reads a file of sources. The error is a diag.List with all that is wrong.
func parse(name string, text []byte, project bool) (*file, error) {
	p := &parser{file: &file{path: name, project: project}, text: string(text)}
	if len(text) > MaxFileSize {
		return nil, tooLarge(name)
	}
	if err := toml.Unmarshal(text, &map[string]any{}); err != nil {
		p.syntax(err)
		return nil, p.problems
	}
	p.toml.Reset(text)
	for p.toml.NextExpression() {
		p.expression(p.toml.Expression())
	}
	if err := p.toml.Error(); err != nil {
		p.syntax(err)
		return nil, p.problems
	}
	p.check()
	p.problems.Sort()
	if err := p.problems.Err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(p.file.entries, func(a, b *entry) int {
		switch {
		case a.pattern.longer(b.pattern):
			return -1
		case b.pattern.longer(a.pattern):
			return 1
		}
		return 0
	})
	return p.file, nil
}

func tooLarge(name string) diag.List {
	return diag.List{{Span: diag.Span{File: name}, Message: fmt.Sprintf("the file is larger than %d KiB, the limit for sources", MaxFileSize>>10)}}
}

// syntax notes that the file is not TOML.
func (p *parser) syntax(err error) {
	d := diag.Diagnostic{Span: diag.Span{File: p.file.path}, Message: "this is not valid TOML: " + strings.TrimPrefix(err.Error(), "toml: ")}
	var at *toml.DecodeError
	if errors.As(err, &at) {
		line, column := at.Position()
		if lines := strings.Split(p.text, "\n"); line >= 1 && line <= len(lines) {
			d.Span, d.Source = p.spanOnLine(lines[line-1], line, column-1, 1)
		}
	}
	p.problems = append(p.problems, d)
}

// spanOnLine makes the span of a part of a line, which begins at a byte. The line is shown unless it may hold a password.
func (p *parser) spanOnLine(line string, number, offset, length int) (diag.Span, string) {
	line = strings.ToValidUTF8(strings.TrimSuffix(line, "\r"), "?")
	offset = min(max(offset, 0), len(line))
	end := min(offset+max(length, 1), len(line))
	span := diag.Span{
		File: p.file.path, Line: number,
		Column: utf8.RuneCountInString(line[:offset]) + 1,
		Length: max(1, utf8.RuneCountInString(line[offset:end])),
	}
	if mayHoldPassword(line) {
		line = ""
	}
	return span, line
}

// mayHoldPassword reports whether a line has a URL with a user in it.
func mayHoldPassword(line string) bool { return strings.Contains(line, "@") }

// span returns the place of a range in the text.
func (p *parser) span(r unstable.Range) (diag.Span, string) {
	offset := min(int(r.Offset), len(p.text))
	start := strings.LastIndexByte(p.text[:offset], '\n') + 1
	line, _, _ := strings.Cut(p.text[start:], "\n")
	return p.spanOnLine(line, strings.Count(p.text[:start], "\n")+1, offset-start, int(r.Length))
}

// fail notes a problem with what is in a range.
func (p *parser) fail(r unstable.Range, hint, format string, args ...any) {
	span, source := p.span(r)
	p.problems = append(p.problems, diag.Diagnostic{Span: span, Source: source, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// sourceHint says how a file of sources is written.
const sourceHint = `an entry begins with a line [[source]], and has a match: match = "gitlab.com/"`

func (p *parser) expression(n *unstable.Node) {
	key, at := keyOf(n)
	p.started = p.started || n.Kind != unstable.KeyValue
	switch n.Kind {
	case unstable.ArrayTable:
		if p.current = nil; key != "source" {
			p.fail(at, sourceHint, "[[%s]] is not known here", key)
			return
		}
		if len(p.file.entries) == MaxEntries {
			p.fail(at, "", "there are more than %d entries", MaxEntries)
			return
		}
		span, source := p.span(at)
		p.current = &entry{file: p.file, span: span, source: source, set: map[string]setting{}}
		p.file.entries = append(p.file.entries, p.current)
	case unstable.Table:
		p.current = nil
		hint := sourceHint
		if key == "source" {
			hint = "write [[source]], with two brackets"
		}
		p.fail(at, hint, "[%s] is not known here", key)
	case unstable.KeyValue:
		if p.current == nil {
			if !p.started {
				p.fail(at, sourceHint, "%q is before the first [[source]]", key)
			}
			return // what is below a table that is not known
		}
		p.setting(key, at, n.Value())
	}
}

// keyOf returns the key of an expression, dotted, and its place.
func keyOf(n *unstable.Node) (key string, at unstable.Range) {
	var parts []string
	for it := n.Key(); it.Next(); {
		parts = append(parts, string(it.Node().Data))
		if r := it.Node().Raw; at.Length == 0 {
			at = r
		} else {
			at.Length = r.Offset + r.Length - at.Offset
		}
	}
	return strings.Join(parts, "."), at
}

// setting reads one key of an entry.
func (p *parser) setting(key string, at unstable.Range, v *unstable.Node) {
	to := p.current.field(key)
	if to == nil {
		hint := "the keys are " + strings.Join(keys, ", ")
		if near := diag.Suggest(key, keys); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		p.fail(at, hint, "the key %q is not known here", key)
		return
	}
	where := v.Raw
	if where.Length == 0 {
		where = at
	}
	span, source := p.span(where)
	p.current.set[key] = setting{span, source, where}
	switch to := to.(type) {
	case *string:
		if v.Kind == unstable.String {
			*to = string(v.Data)
			if *to == "" {
				p.fail(where, "leave the line out", "%s is empty", key)
			}
			return
		}
		p.fail(where, "write it in quotes", "%s takes a text", key)
	case *bool:
		if v.Kind == unstable.Bool {
			*to = string(v.Data) == "true"
			return
		}
		p.fail(where, "", "%s takes true or false", key)
	case *int:
		n, err := strconv.Atoi(string(v.Data))
		if v.Kind == unstable.Integer && err == nil && n > 0 {
			*to = n
			return
		}
		p.fail(where, "", "%s takes a whole number, 1 or more", key)
	case *time.Duration:
		d, err := time.ParseDuration(string(v.Data))
		if v.Kind == unstable.String && err == nil && d >= 0 {
			*to = d
			return
		}
		p.fail(where, `as in "30s", "10m" or "1h30m"`, "%s takes a time in quotes", key)
	case *[]string:
		*to = p.list(key, where, v)
	}
}

// list reads an array of texts.
func (p *parser) list(key string, where unstable.Range, v *unstable.Node) (items []string) {
	if v.Kind != unstable.Array {
		p.fail(where, `as in ["a", "b"]`, "%s takes a list of texts", key)
		return nil
	}
	for it := v.Children(); it.Next(); {
		if item := it.Node(); item.Kind != unstable.String || len(item.Data) == 0 {
			p.fail(where, `as in ["a", "b"]`, "%s takes a list of texts", key)
			return nil
		} else {
			items = append(items, string(item.Data))
		}
	}
	return items
}

// absolute makes a path that is relative to the file absolute.
func (f *file) absolute(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && home != "" {
		return filepath.Join(home, rest)
	}
	if path = filepath.FromSlash(path); filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(f.path), path)
}
