package config

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/internal/yamlsource"
)

// blocks puts values in the place of the blocks of one file. What it puts there is data: nothing looks for blocks in it again.
type blocks struct {
	*resolver
	inputs    map[string]item
	component map[string]item
	done      map[*tree]item // what aliases repeat
	values    map[string]blockValue
	failed    bool
}

type blockValue struct {
	item
	err error
}

// interpolate replaces the blocks of a whole configuration.
func (b *blocks) interpolate(root *tree) *tree {
	b.done, b.values = map[*tree]item{}, map[string]blockValue{}
	out := b.tree(root).value
	if out != root && !b.bounded(Node{tree: root}, out) {
		return nil
	}
	return out
}

func (b *blocks) tree(t *tree) item {
	shared := t.raw != nil && t.raw.Shared()
	if shared {
		if out, ok := b.done[t]; ok {
			return out
		}
	}
	out := item{value: t}
	switch t.kind {
	case yamlsource.String:
		if strings.Contains(t.text, blockOpen) {
			out = b.scalar(t)
		}
	case yamlsource.Sequence:
		out.value = b.sequence(t)
	case yamlsource.Mapping:
		out.value = b.mapping(t)
	}
	if shared {
		b.done[t] = out
	}
	return out
}

func (b *blocks) sequence(t *tree) *tree {
	var items []item
	for i, it := range t.items {
		v := b.tree(it.value)
		if v.value == it.value && items == nil {
			continue
		}
		if items == nil {
			items = slices.Clone(t.items)
		}
		items[i] = v
	}
	if items == nil {
		return t
	}
	out := *t
	out.items = items
	out.weigh()
	return &out
}

func (b *blocks) mapping(t *tree) *tree {
	var entries []entry
	renamed := false
	for i, e := range t.entries {
		key := e.key
		if strings.Contains(key.text, blockOpen) {
			key = b.key(key)
			renamed = true
		}
		v := b.tree(e.value)
		if key == e.key && v.value == e.value {
			continue
		}
		if entries == nil {
			entries = slices.Clone(t.entries)
		}
		entries[i] = entry{key, v.value, v.via}
	}
	if entries == nil {
		return t
	}
	if renamed {
		entries = b.distinct(entries)
	}
	out := *t
	out.entries = entries
	out.weigh()
	return &out
}

// distinct lets the last of several entries of one key win, as the YAML reader does.
func (b *blocks) distinct(entries []entry) []entry {
	index := make(map[string]int, len(entries))
	out := entries[:0]
	for _, e := range entries {
		if at, ok := index[e.key.text]; ok {
			b.warn(Node{tree: e.key}, "make sure that the inputs differ", "the key %q is already set on line %d, and this one replaces it", shorten(e.key.text), out[at].key.span().Line)
			out[at].value, out[at].via = e.value, e.via
			continue
		}
		index[e.key.text] = len(out)
		out = append(out, e)
	}
	return out
}

// key replaces the blocks of a key, which stays a string.
func (b *blocks) key(t *tree) *tree {
	text, ok := b.text(t)
	if !ok {
		return t
	}
	return stringTree(t, text)
}

// scalar replaces the blocks of a string. One that is nothing but a block, without quotes, becomes the value itself.
func (b *blocks) scalar(t *tree) item {
	start, end, inside, ok := nextBlock(t.text)
	if !ok {
		return item{value: t}
	}
	if start > 0 || end < len(t.text) || !t.raw.IsPlain() {
		if text, ok := b.text(t); ok {
			return item{value: stringTree(t, text)}
		}
		return item{value: t}
	}
	v, ok := b.block(t, 0, t.text, inside)
	if !ok {
		return item{value: t}
	}
	name := strings.TrimSpace(splitUnquoted(inside, '|')[0])
	via := v.via.then(&hop{step: Step{By: ByInput, Name: name, At: t.raw.Span, Source: t.source}})
	if v.value.kind == yamlsource.String && !v.value.bare {
		bare := *v.value
		bare.bare = true
		return item{&bare, via}
	}
	return item{v.value, via}
}

// text replaces every block of a text.
func (b *blocks) text(t *tree) (string, bool) {
	if len(t.text) > MaxBlockText {
		b.fail(Node{tree: t}, "split it", "a text with $[[ ]] is longer than %d bytes, which is the limit", MaxBlockText)
		return "", false
	}
	var out strings.Builder
	all := true
	rest := t.text
	for {
		start, end, inside, ok := nextBlock(rest)
		if !ok {
			break
		}
		offset := len(t.text) - len(rest) + start
		out.WriteString(rest[:start])
		if v, ok := b.block(t, offset, rest[start:end], inside); ok {
			text, err := textOf(v.value)
			if err != nil {
				b.failBlock(t, offset, rest[start:end], err)
				all = false
			}
			out.WriteString(text)
		} else {
			all = false
		}
		rest = rest[end:]
		b.made += out.Len()
		if out.Len() > MaxBlockText || b.made > MaxInterpolatedText {
			b.fail(Node{tree: t}, "use shorter inputs", "with its inputs, the text is longer than %d bytes, or all texts together are longer than %d, which is the limit", MaxBlockText, MaxInterpolatedText)
			return "", false
		}
	}
	out.WriteString(rest)
	return out.String(), all
}

// block returns the value of a block that is at an offset of a text, in bytes. What is wrong with it is reported.
func (b *blocks) block(t *tree, offset int, whole, inside string) (item, bool) {
	v, known := b.values[inside]
	if !known {
		if len(b.values) >= MaxBlocks {
			b.fail(Node{tree: t}, "split the file", "the file holds more than %d different $[[ ]], which is the limit", MaxBlocks)
			return item{}, false
		}
		v.item, v.err = b.evaluate(inside)
		b.values[inside] = v
	}
	if v.err != nil {
		b.failBlock(t, offset, whole, v.err)
		return item{}, false
	}
	if v.value == nil { // the input has no value, which has been reported
		b.failed = true
		return item{}, false
	}
	return v.item, true
}

func (b *blocks) failBlock(t *tree, offset int, whole string, err error) {
	n := Node{tree: t}
	place, hint := n.Span(), ""
	if !b.full() { // to find a place in a long line costs a walk along it
		place = n.At(utf8.RuneCountInString(t.text[:offset]), utf8.RuneCountInString(whole))
	}
	var unknown unknownName
	if errors.As(err, &unknown) {
		hint = b.suggest(unknown.name, unknown.candidates, declareHint(unknown))
	}
	b.failed = true
	b.reportAt(n, place, hint, "%v", err)
}

func declareHint(u unknownName) string {
	switch u.kind {
	case "input":
		return "declare it in the header of this file, under `spec:` and `inputs:`"
	case "function":
		return "there are " + strings.Join(u.candidates, ", ")
	default:
		return "list it in `spec:component`; there are " + strings.Join(componentFields, ", ")
	}
}

func (b *blocks) fail(n Node, hint, format string, args ...any) {
	b.failed = true
	b.report(n, hint, format, args...)
}
