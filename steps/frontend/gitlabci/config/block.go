package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/value"
)

// What encloses a block.
const (
	blockOpen  = "$[["
	blockClose = "]]"
)

// Limits of blocks, as GitLab has them.
const (
	// MaxBlocks is how many different blocks a file may hold.
	MaxBlocks = 10_000
	// MaxBlockSize is how long the inside of a block may be, in bytes.
	MaxBlockSize = 1024
	// MaxBlockText is how long a text with blocks may be, and what becomes of it, in bytes.
	MaxBlockText = 1 << 20
	// MaxFunctions is how many functions a block may call.
	MaxFunctions = 3
	// MaxAccess is how many names an access may have, with dots between them.
	MaxAccess = 5
	// MaxInterpolatedText bounds the text that all blocks together make, in bytes.
	MaxInterpolatedText = 64 << 20
)

// nextBlock returns where the first block of a text begins and ends, and what is in it.
func nextBlock(text string) (start, end int, inside string, ok bool) {
	offset := 0
	for {
		at := strings.Index(text[offset:], blockOpen)
		if at < 0 {
			return 0, 0, "", false
		}
		start = offset + at
		rest := text[start+len(blockOpen):]
		length := strings.Index(rest, blockClose)
		if length < 0 {
			return 0, 0, "", false
		}
		inside = strings.TrimSpace(rest[:length])
		// A block is on one line. One of the matrix is for `needs:parallel:matrix`, which is read later.
		if strings.Contains(rest[:length], "\n") || strings.HasPrefix(inside, "matrix.") {
			offset = start + len(blockOpen)
			continue
		}
		return start, start + len(blockOpen) + length + len(blockClose), inside, true
	}
}

// evaluate returns what the inside of a block stands for.
func (b *blocks) evaluate(inside string) (item, error) {
	if len(inside) > MaxBlockSize {
		return item{}, fmt.Errorf("the block is longer than %d bytes, which is the limit", MaxBlockSize)
	}
	parts := splitUnquoted(inside, '|')
	v, err := b.access(strings.TrimSpace(parts[0]))
	if err != nil {
		return item{}, err
	}
	if len(parts)-1 > MaxFunctions {
		return item{}, fmt.Errorf("the block calls %d functions, and %d is the limit", len(parts)-1, MaxFunctions)
	}
	for i, call := range parts[1:] {
		call = strings.TrimSpace(call)
		t, err := b.call(call, v.value)
		if err != nil {
			return item{}, err
		}
		if t.kind == yamlsource.Sequence && i+2 < len(parts) {
			return item{}, fmt.Errorf("no function can follow %s, which gives a list", call)
		}
		v.value = t
	}
	return v, nil
}

// splitUnquoted splits at separators outside quotes.
func splitUnquoted(text string, separator byte) []string {
	var parts []string
	start, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == separator:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}

// access returns what a path such as inputs.servers[0].host names.
func (b *blocks) access(path string) (item, error) {
	names := strings.Split(path, ".")
	if path == "" {
		return item{}, fmt.Errorf("the block is empty: write $[[ inputs.name ]]")
	}
	if len(names) < 2 || len(names) > MaxAccess {
		return item{}, fmt.Errorf("%q is not an access such as inputs.name", shorten(path))
	}
	var at item
	for i, name := range names {
		name, indexes, err := splitIndexes(name)
		if err != nil {
			return item{}, err
		}
		switch i {
		case 0:
			if (name != "inputs" && name != "component") || len(indexes) > 0 {
				return item{}, fmt.Errorf("%q is unknown here: use inputs or component", shorten(name))
			}
		case 1:
			if at, err = b.named(names[0], name); err != nil {
				return item{}, err
			}
		default:
			e := at.value.get(name)
			if at.value.kind != yamlsource.Mapping || e == nil {
				return item{}, fmt.Errorf("%s has no %q", strings.Join(names[:i], "."), shorten(name))
			}
			at = item{e.value, e.via.then(at.via)}
		}
		for _, index := range indexes {
			if at.value.kind != yamlsource.Sequence {
				return item{}, fmt.Errorf("%s is %s: only a list has a [%d]", shorten(path), at.value.kind, index)
			}
			if index >= len(at.value.items) {
				return item{}, fmt.Errorf("%s has no item %d: it has %d", strings.Join(names[:i+1], "."), index, len(at.value.items))
			}
			it := at.value.items[index]
			at = item{it.value, it.via.then(at.via)}
		}
	}
	return at, nil
}

// splitIndexes takes name[0][1] apart.
func splitIndexes(text string) (name string, indexes []int, err error) {
	name, rest, found := strings.Cut(text, "[")
	for found {
		inner, after, closed := strings.Cut(rest, "]")
		index, err := strconv.ParseUint(inner, 10, 31)
		if !closed || err != nil || after != "" && !strings.HasPrefix(after, "[") {
			return "", nil, fmt.Errorf("%q is not a name with indexes such as [0]", shorten(text))
		}
		indexes = append(indexes, int(index))
		rest, found = strings.CutPrefix(after, "[")
	}
	return name, indexes, nil
}

// named returns an input, or a field of the component.
func (b *blocks) named(of, name string) (item, error) {
	if of == "inputs" {
		if v, ok := b.inputs[name]; ok {
			return v, nil
		}
		return item{}, unknownName{kind: "input", name: name, candidates: sortedNames(b.inputs)}
	}
	v, ok := b.component[name]
	if !ok {
		return item{}, unknownName{kind: "component field", name: name, candidates: sortedNames(b.component)}
	}
	return v, nil
}

// unknownName is an access to what is not declared.
type unknownName struct {
	kind, name string
	candidates []string
}

// Error says what is not there.
func (u unknownName) Error() string { return fmt.Sprintf("there is no %s %q", u.kind, shorten(u.name)) }

// call applies a function of a block.
func (b *blocks) call(call string, t *tree) (*tree, error) {
	name, rest, hasArguments := strings.Cut(call, "(")
	name = strings.TrimSpace(name)
	var arguments []string
	if hasArguments {
		inner, ok := strings.CutSuffix(strings.TrimSpace(rest), ")")
		if !ok {
			return nil, fmt.Errorf("%s( is never closed", name)
		}
		for _, a := range splitUnquoted(inner, ',') {
			arguments = append(arguments, strings.TrimSpace(a))
		}
	}
	switch name {
	case "expand_vars", "truncate", "posix_escape", "split":
	default:
		return nil, unknownName{kind: "function", name: name, candidates: []string{"expand_vars", "truncate", "posix_escape", "split"}}
	}
	if t.kind != yamlsource.String {
		return nil, fmt.Errorf("%s must be a string, not %s", name, t.kind)
	}
	if hasArguments && (name == "expand_vars" || name == "posix_escape") {
		return nil, fmt.Errorf("%s takes no arguments", name)
	}
	switch name {
	case "expand_vars":
		text, err := b.options.ExpandInput(t.text)
		if err != nil {
			return nil, fmt.Errorf("expand_vars: %w", err)
		}
		return stringTree(t, text), nil
	case "posix_escape":
		return stringTree(t, posixEscape(t.text)), nil
	case "truncate":
		if len(arguments) != 2 {
			return nil, fmt.Errorf("truncate wants an offset and a length: truncate(0,8)")
		}
		offset, err1 := strconv.ParseUint(arguments[0], 10, 31)
		length, err2 := strconv.ParseUint(arguments[1], 10, 31)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("truncate takes two whole numbers, such as truncate(0,8)")
		}
		runes := []rune(t.text)
		start := min(int(offset), len(runes))
		return stringTree(t, string(runes[start:min(start+int(length), len(runes))])), nil
	default:
		return splitText(t, arguments)
	}
}

// splitText makes a list of a text: what is between separators, without space around it, empty ones left out.
func splitText(t *tree, arguments []string) (*tree, error) {
	if len(arguments) != 1 || len(arguments[0]) < 2 || !strings.ContainsRune(`'"`, rune(arguments[0][0])) || arguments[0][0] != arguments[0][len(arguments[0])-1] {
		return nil, fmt.Errorf("split wants a separator in quotes: split(',')")
	}
	separator := arguments[0][1 : len(arguments[0])-1]
	if separator == "" {
		return nil, fmt.Errorf("the separator of split cannot be empty")
	}
	out := &tree{raw: t.raw, source: t.source, kind: yamlsource.Sequence, made: true}
	for _, part := range strings.Split(t.text, separator) {
		if part = strings.TrimSpace(part); part != "" {
			out.items = append(out.items, item{value: stringTree(t, part)})
		}
	}
	out.weigh()
	return out, nil
}

// stringTree is a string that was made of what a tree holds.
func stringTree(of *tree, text string) *tree {
	return &tree{raw: of.raw, source: of.source, kind: yamlsource.String, text: text, made: true, nodes: 1, depth: 1}
}

// posixEscape puts a backslash before every character that a shell may give a meaning.
func posixEscape(text string) string {
	if text == "" {
		return "''"
	}
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\n':
			out.WriteString("'\n'")
			continue
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("_-.,:+/@", r):
		default:
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}

// textOf is how a value reads inside other text: a scalar as it is, null as nothing, all else as JSON.
func textOf(t *tree) (string, error) {
	if t.refers {
		return "", fmt.Errorf("a !reference is not allowed in text: files are merged before references are resolved")
	}
	if t.kind.IsScalar() {
		if t.kind == yamlsource.Null {
			return "", nil
		}
		return t.text, nil
	}
	text, ok := appendJSON(nil, t, MaxBlockText)
	if !ok {
		return "", fmt.Errorf("as text, the list is longer than %d bytes, which is the limit", MaxBlockText)
	}
	return string(text), nil
}

// MarshalJSON writes the node as JSON, the keys of maps in their order.
func (n Node) MarshalJSON() ([]byte, error) {
	if n.tree == nil {
		return []byte("null"), nil
	}
	text, _ := appendJSON(nil, n.tree, 0)
	return text, nil
}

// appendJSON appends a tree as JSON. It gives up when that becomes longer than a limit, unless the limit is 0.
func appendJSON(out []byte, t *tree, limit int) ([]byte, bool) {
	if limit > 0 && len(out) > limit {
		return out, false
	}
	var ok bool
	switch t.kind {
	case yamlsource.Sequence:
		out = append(out, '[')
		for i, it := range t.items {
			if i > 0 {
				out = append(out, ',')
			}
			if out, ok = appendJSON(out, it.value, limit); !ok {
				return out, false
			}
		}
		return append(out, ']'), true
	case yamlsource.Mapping:
		out = append(out, '{')
		for i, e := range t.entries {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(value.OfString(e.key.text).AppendJSON(out), ':')
			if out, ok = appendJSON(out, e.value, limit); !ok {
				return out, false
			}
		}
		return append(out, '}'), true
	default:
		return t.value().AppendJSON(out), true
	}
}
