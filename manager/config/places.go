package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/rungci/rung/steps/diag"
)

// document is a file: its values, and where they are. The library's decoder has the values; its parser has the places.
type document struct {
	name   string
	text   string
	values map[string]any
	keys   map[string]place // by path: runners[0].docker.image
	vals   map[string]place
	tables map[string]int // of [[runners]]: how many there are, by path
	// headings are the lines of tables, in order.
	headings []heading
}

// heading is a line [TABLE] or [[TABLE]].
type heading struct {
	path string
	line int // where it begins in the text
}

// MaxSize is how long the file may be, in bytes.
const MaxSize = 4 << 20

// parse reads a text as TOML. The error is a diag.Diagnostic.
func parse(name string, text []byte) (*document, error) {
	d := &document{name: name, text: string(text), values: map[string]any{}, keys: map[string]place{}, vals: map[string]place{}, tables: map[string]int{}}
	if len(text) > MaxSize {
		return d, diag.Diagnostic{Span: diag.Span{File: name}, Message: fmt.Sprintf("the file is larger than %d MiB", MaxSize>>20)}
	}
	text = unmarked(text)
	if err := toml.Unmarshal(text, &d.values); err != nil {
		return d, d.syntax(err)
	}
	p := unstable.Parser{}
	p.Reset(text)
	base := ""
	for p.NextExpression() {
		switch n := p.Expression(); n.Kind {
		case unstable.Table, unstable.ArrayTable:
			base = d.heading(n)
		case unstable.KeyValue:
			d.keyValue(base, n)
		}
	}
	if err := p.Error(); err != nil {
		return d, d.syntax(err)
	}
	return d, nil
}

// mark is what some editors, those of Windows above all, begin a text with: its byte order, which UTF-8 does not have. gitlab-runner skips it.
const mark = "\ufeff"

// unmarked is a text with spaces in the place of its mark, so that all else stays where it is.
func unmarked(text []byte) []byte {
	rest, marked := bytes.CutPrefix(text, []byte(mark))
	if !marked {
		return text
	}
	return append(bytes.Repeat([]byte{' '}, len(mark)), rest...)
}

// join is the path of a key in a table.
func join(base, key string) string {
	if base == "" {
		return key
	}
	return base + "." + key
}

// heading notes the place of a table and returns its path.
func (d *document) heading(n *unstable.Node) string {
	path, first := "", n.Child().Raw.Offset
	for it := n.Key(); it.Next(); {
		path = join(path, string(it.Node().Data))
		if it.IsLast() && n.Kind == unstable.ArrayTable {
			d.tables[path]++
		}
		if _, ok := d.keys[path]; !ok {
			d.keys[path] = it.Node().Raw
		}
		if count := d.tables[path]; count > 0 {
			path = fmt.Sprintf("%s[%d]", path, count-1)
			if _, ok := d.keys[path]; !ok {
				d.keys[path] = it.Node().Raw
			}
		}
	}
	d.headings = append(d.headings, heading{path, strings.LastIndexByte(d.text[:first], '\n') + 1})
	return path
}

func (d *document) keyValue(base string, n *unstable.Node) {
	path := base
	for it := n.Key(); it.Next(); {
		path = join(path, string(it.Node().Data))
		d.keys[path] = it.Node().Raw
	}
	d.value(path, n.Value())
}

func (d *document) value(path string, v *unstable.Node) {
	if v.Raw.Length > 0 {
		d.vals[path] = v.Raw
	}
	switch v.Kind {
	case unstable.InlineTable:
		for it := v.Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				d.keyValue(path, it.Node())
			}
		}
	case unstable.Array:
		i := 0
		for it := v.Children(); it.Next(); {
			if it.Node().Kind != unstable.Comment {
				d.value(fmt.Sprintf("%s[%d]", path, i), it.Node())
				i++
			}
		}
	}
}

// index is the number of an entry in the file; ok is false where it is in none.
func (c *Config) index(r *Runner) (i int, ok bool) {
	i = slices.IndexFunc(c.Runners, func(other Runner) bool { return other.line == r.line })
	return i, c.doc != nil && i >= 0
}

// Place is where in the file a key of an entry is: "docker.image", "fleet.pools[0].shape". What is not there has the place of the nearest table around it. source is
// the line, if that may be shown.
func (c *Config) Place(r *Runner, key string) (at diag.Span, source string) {
	i, ok := c.index(r)
	if !ok {
		return diag.Span{File: c.Path, Line: r.line, Column: 1, Length: 1}, ""
	}
	return c.doc.at(fmt.Sprintf("runners[%d].%s", i, key), c.doc.vals)
}

// KeyError is an error about one key of an entry, for Place.
type KeyError struct {
	Key string
	Err error
}

// Error names the key, as the file has it.
func (e *KeyError) Error() string {
	return "runners." + numbers.ReplaceAllString(e.Key, "") + ": " + e.Err.Error()
}

// Unwrap returns the error below.
func (e *KeyError) Unwrap() error { return e.Err }

// numbers are those of tables and values in a path.
var numbers = regexp.MustCompile(`\[\d+\]`)

// syntax says that the text is not TOML.
func (d *document) syntax(err error) diag.Diagnostic {
	problem := diag.Diagnostic{Span: diag.Span{File: d.name}, Message: "this is not valid TOML: " + strings.TrimPrefix(err.Error(), "toml: ")}
	var at *toml.DecodeError
	if errors.As(err, &at) {
		line, column := at.Position()
		problem.Span, problem.Source = d.onLine(diag.LineOf([]byte(d.text), line), line, column-1, 1)
	}
	return problem
}

// at is the place of a path's value, or of its key if there is no other.
func (d *document) at(path string, places map[string]place) (diag.Span, string) {
	r, ok := places[path]
	if !ok {
		r, ok = d.keys[path]
	}
	for !ok && path != "" { // what is in an array or an inline table
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
		r, ok = d.keys[path]
	}
	if !ok {
		return diag.Span{File: d.name}, ""
	}
	offset := min(int(r.Offset), len(d.text))
	start := strings.LastIndexByte(d.text[:offset], '\n') + 1
	line, _, _ := strings.Cut(d.text[start:], "\n")
	return d.onLine(line, strings.Count(d.text[:start], "\n")+1, offset-start, int(r.Length))
}

// onLine makes the span of a part of a line, which begins at a byte.
func (d *document) onLine(line string, number, offset, length int) (diag.Span, string) {
	if rest, marked := strings.CutPrefix(line, mark); marked && number == 1 { // nobody sees it
		line, offset = rest, offset-len(mark)
	}
	line = strings.ToValidUTF8(strings.TrimSuffix(line, "\r"), "?")
	offset = min(max(offset, 0), len(line))
	end := min(offset+max(length, 1), len(line))
	span := diag.Span{
		File: d.name, Line: number,
		Column: utf8.RuneCountInString(line[:offset]) + 1,
		Length: max(1, utf8.RuneCountInString(line[offset:end])),
	}
	if secretLine.MatchString(line) {
		line = ""
	}
	return span, line
}

// secretLine finds lines that may hold a secret, which nobody is shown: by the names of keys and variables, and by a user in an address.
var secretLine = regexp.MustCompile(`(?i)token|secret|password|passwd|credential|private|access[-_]?key|account[-_]?key|api_?key|auth|sentry_dsn|glrt-|://[^/\s"']*@`)
