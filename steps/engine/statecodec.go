package engine

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/steps/value"
)

// The document of a state is JSON in one form: keys sorted, no blanks. Names and texts of users are never keys in it, so that an object
// can stand for a text wherever one can be:
//
//	{"$secret": NAME}   the run's secret of that name
//	{"$sensitive": N}   text number N of State.Sensitive
//	{"$bytes": BASE64}  a text that is not UTF-8
const (
	secretKey    = "$secret"
	sensitiveKey = "$sensitive"
	bytesKey     = "$bytes"
	clearKey     = "$clear" // a sensitive text on its way into the document; it never stands in one
)

// text is a text in a document.
type text struct {
	string
	hide bool // it does not stand in the document, whether or not it is one that is masked
}

// MarshalJSON implements json.Marshaler.
func (t text) MarshalJSON() ([]byte, error) {
	switch {
	case t.hide:
		return json.Marshal(map[string]string{clearKey: base64.StdEncoding.EncodeToString([]byte(t.string))})
	case !utf8.ValidString(t.string):
		return json.Marshal(map[string]string{bytesKey: base64.StdEncoding.EncodeToString([]byte(t.string))})
	default:
		return json.Marshal(t.string)
	}
}

// UnmarshalJSON implements json.Unmarshaler, for a document whose references have been resolved.
func (t *text) UnmarshalJSON(data []byte) error {
	tree, err := parseTree(data)
	if err != nil {
		return err
	}
	t.string, err = textOf(tree)
	return err
}

// textOf is the text that a node of a resolved document stands for.
func textOf(node any) (string, error) {
	switch n := node.(type) {
	case string:
		return n, nil
	case map[string]any:
		if encoded, ok := n[bytesKey].(string); ok && len(n) == 1 {
			raw, err := base64.StdEncoding.DecodeString(encoded)
			return string(raw), err
		}
	}
	return "", errors.New("there is something else where a text belongs")
}

// encodedValue is a value in a document: scalars and arrays are themselves, a struct is {"fields": [{"name", "value"}, …]}, and what is
// marked as sensitive is {"marked": TEXT}, in which the text is what the value would be without its mark.
type encodedValue struct{ value.Value }

// MarshalJSON implements json.Marshaler.
func (v encodedValue) MarshalJSON() ([]byte, error) { return appendValue(nil, v.Value, true) }

// appendValue appends what stands for v. Without marks, those of v and of what is in it are left out.
func appendValue(b []byte, v value.Value, marks bool) ([]byte, error) {
	if marks && v.Marked() {
		inner, err := appendValue(nil, v, false)
		if err != nil {
			return nil, err
		}
		hidden, err := json.Marshal(text{string(inner), true})
		return append(append(append(b, `{"marked":`...), hidden...), '}'), err
	}
	var err error
	switch v.Kind() {
	case value.String:
		encoded, err := json.Marshal(text{string: v.Str()})
		return append(b, encoded...), err
	case value.Array:
		b = append(b, '[')
		for i, item := range v.Items() {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendValue(b, item, marks); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case value.Struct:
		b = append(b, `{"fields":[`...)
		for i, name := range v.Keys() {
			if i > 0 {
				b = append(b, ',')
			}
			encoded, err := json.Marshal(text{string: name})
			if err != nil {
				return nil, err
			}
			b = append(append(append(b, `{"name":`...), encoded...), `,"value":`...)
			if b, err = appendValue(b, v.Fields()[name], marks); err != nil {
				return nil, err
			}
			b = append(b, '}')
		}
		return append(b, "]}"...), nil
	default:
		return v.AppendJSON(b), nil
	}
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *encodedValue) UnmarshalJSON(data []byte) error {
	tree, err := parseTree(data)
	if err != nil {
		return err
	}
	v.Value, err = valueOf(tree, 0, true)
	return err
}

// valueOf is the value that a node stands for. One that is marked stands in no other that is.
func valueOf(node any, depth int, marks bool) (value.Value, error) {
	if depth > value.MaxDepth {
		return value.Value{}, value.ErrTooDeep
	}
	switch n := node.(type) {
	case nil:
		return value.Value{}, nil
	case bool:
		return value.OfBool(n), nil
	case json.Number:
		return value.ParseNumber(n.String())
	case []any:
		items := make([]value.Value, len(n))
		for i, item := range n {
			var err error
			if items[i], err = valueOf(item, depth+1, marks); err != nil {
				return value.Value{}, err
			}
		}
		return value.OfArray(items), nil
	case map[string]any:
		if fields, ok := n["fields"].([]any); ok && len(n) == 1 {
			return structOf(fields, depth, marks)
		}
		if inner, ok := n["marked"]; ok && len(n) == 1 && marks {
			encoded, err := textOf(inner)
			if err != nil {
				return value.Value{}, err
			}
			tree, err := parseTree([]byte(encoded))
			if err != nil {
				return value.Value{}, err
			}
			v, err := valueOf(tree, depth, false)
			return v.Mark(true), err
		}
	}
	s, err := textOf(node)
	return value.OfString(s), err
}

func structOf(fields []any, depth int, marks bool) (value.Value, error) {
	out := make(map[string]value.Value, len(fields))
	for _, field := range fields {
		pair, ok := field.(map[string]any)
		if !ok || len(pair) != 2 {
			return value.Value{}, errors.New("a field of a struct is not a name and a value")
		}
		name, err := textOf(pair["name"])
		if err != nil {
			return value.Value{}, err
		}
		v, err := valueOf(pair["value"], depth+1, marks)
		if err != nil {
			return value.Value{}, err
		}
		if _, twice := out[name]; twice {
			return value.Value{}, fmt.Errorf("the field %q is there twice", name)
		}
		out[name] = v
	}
	return value.OfStruct(out), nil
}

// parseTree reads exactly one JSON value.
func parseTree(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after its end")
	}
	return tree, nil
}

// canonicalJSON is the one form of a tree.
func canonicalJSON(tree any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// hider takes what is sensitive out of a document.
type hider struct {
	masked  func(string) bool // whether a text holds what is masked
	secrets map[string]string // by text: the name of the secret that it is
	found   map[string]int
	list    [][]byte
}

// hide returns the tree with references in the place of all texts that must not stand in it.
func (h *hider) hide(node any) (any, error) {
	switch n := node.(type) {
	case string:
		if h.masked(n) {
			return h.reference(n), nil
		}
	case []any:
		for i := range n {
			var err error
			if n[i], err = h.hide(n[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(n)) { // in order, so that the numbers are the same every time
			encoded := n[key]
			if key != clearKey && key != bytesKey {
				var err error
				if n[key], err = h.hide(encoded); err != nil {
					return nil, err
				}
				continue
			}
			raw, err := base64.StdEncoding.DecodeString(encoded.(string)) // as text.MarshalJSON made it
			if err != nil {
				return nil, err
			}
			if key == clearKey || h.masked(string(raw)) {
				return h.reference(string(raw)), nil
			}
		}
	}
	return node, nil
}

func (h *hider) reference(s string) any {
	if name, ok := h.secrets[s]; ok {
		return map[string]any{secretKey: name}
	}
	n, ok := h.found[s]
	if !ok {
		n = len(h.list)
		h.found[s], h.list = n, append(h.list, []byte(s))
	}
	return map[string]any{sensitiveKey: n}
}

// uncover returns the tree with the texts that a hider would take out as they are.
func uncover(node any) (any, error) {
	switch n := node.(type) {
	case []any:
		for i := range n {
			var err error
			if n[i], err = uncover(n[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		if encoded, ok := n[clearKey].(string); ok {
			raw, err := base64.StdEncoding.DecodeString(encoded)
			return (&revealer{}).text(string(raw)), err
		}
		for key := range n {
			var err error
			if n[key], err = uncover(n[key]); err != nil {
				return nil, err
			}
		}
	}
	return node, nil
}

// revealer puts back what a hider took out, and moves texts to the folder of another run.
type revealer struct {
	sensitive [][]byte
	secret    func(name string) (string, error)
	from, to  string // the run's own folder, then and now
}

func (v *revealer) reveal(node any) (any, error) {
	switch n := node.(type) {
	case string:
		return v.text(n), nil
	case []any:
		for i := range n {
			var err error
			if n[i], err = v.reveal(n[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		if len(n) == 1 {
			for key, of := range n {
				if strings.HasPrefix(key, "$") {
					return v.reference(key, of)
				}
			}
		}
		for key, of := range n {
			if strings.HasPrefix(key, "$") {
				return nil, fmt.Errorf("%q does not stand alone", key)
			}
			var err error
			if n[key], err = v.reveal(of); err != nil {
				return nil, err
			}
		}
	}
	return node, nil
}

func (v *revealer) reference(key string, of any) (any, error) {
	switch key {
	case bytesKey:
		s, err := textOf(map[string]any{key: of})
		return v.text(s), err
	case secretKey:
		if name, ok := of.(string); ok {
			s, err := v.secret(name)
			return v.text(s), err
		}
	case sensitiveKey:
		if number, ok := of.(json.Number); ok {
			n, err := number.Int64()
			if err != nil || n < 0 || n >= int64(len(v.sensitive)) {
				return nil, fmt.Errorf("sensitive text %s is missing", number)
			}
			return v.text(string(v.sensitive[n])), nil
		}
	}
	return nil, fmt.Errorf("%q does not refer to anything", key)
}

// text is the node that stands for a text.
func (v *revealer) text(s string) any {
	if v.from != "" && v.from != v.to {
		s = relocated(s, v.from, v.to)
	}
	if !utf8.ValidString(s) {
		return map[string]any{bytesKey: base64.StdEncoding.EncodeToString([]byte(s))}
	}
	return s
}

// relocated returns s with the path from, and the beginning of paths below it, replaced by the path to.
func relocated(s, from, to string) string {
	if !strings.Contains(s, from) {
		return s
	}
	var b strings.Builder
	for {
		at := strings.Index(s, from)
		if at < 0 {
			b.WriteString(s)
			return b.String()
		}
		end := at + len(from)
		b.WriteString(s[:at])
		if end < len(s) && longerName(s[end]) {
			b.WriteString(from)
		} else {
			b.WriteString(to)
		}
		s = s[end:]
	}
}

// longerName reports whether a name goes on with c.
func longerName(c byte) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
