// Package value holds the typed values that steps exchange: inputs, outputs and the results of expressions.
//
// A value knows whether it is sensitive. Whatever is computed from a sensitive value is sensitive too. Integers of up to
// 64 bits are exact; every other number is an IEEE 754 double, as in JSON.
package value

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is the type of a value. The order of the constants is the order in which values of different kinds sort.
type Kind uint8

// The kinds of value.
const (
	Null Kind = iota
	Boolean
	Number
	String
	Array
	Struct
)

// String returns the kind's name as step definitions spell it.
func (k Kind) String() string {
	switch k {
	case Boolean:
		return "boolean"
	case Number:
		return "number"
	case String:
		return "string"
	case Array:
		return "array"
	case Struct:
		return "struct"
	default:
		return "null"
	}
}

// WithArticle returns the kind's name as it stands in a sentence: "a string", "an array", "null".
func (k Kind) WithArticle() string {
	switch k {
	case Null:
		return "null"
	case Array:
		return "an array"
	default:
		return "a " + k.String()
	}
}

// KindNames are the names of the kinds that a definition may declare, in the order in which errors list them.
var KindNames = []string{"string", "number", "boolean", "struct", "array"}

// ParseKind returns the kind with the given name. Null is not a kind that a definition can declare.
func ParseKind(name string) (Kind, bool) {
	for _, k := range []Kind{String, Number, Boolean, Struct, Array} {
		if k.String() == name {
			return k, true
		}
	}
	return Null, false
}

// Value is an immutable typed value. The zero Value is null.
type Value struct {
	kind      Kind
	sensitive bool
	secrets   []string // the texts in a string that make it sensitive; none: it is one as a whole
	boolean   bool
	float     float64
	integer   *big.Int // nil when the number is not an integer of up to 64 bits
	text      string
	items     []Value
	fields    map[string]Value
}

// OfBool returns a boolean.
func OfBool(b bool) Value { return Value{kind: Boolean, boolean: b} }

// OfString returns a string. Bytes that are not UTF-8 are kept.
func OfString(s string) Value { return Value{kind: String, text: s} }

// OfInt returns an exact integer.
func OfInt(i int64) Value { return Value{kind: Number, integer: big.NewInt(i)} }

// OfFloat returns a number. A whole number that a double holds exactly becomes an integer.
func OfFloat(f float64) Value {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return OfInt(int64(f))
	}
	return Value{kind: Number, float: f}
}

// maxIntegerBits is the size of the integers that stay exact: signed and unsigned 64-bit ones.
const maxIntegerBits = 64

// OfBig returns i exactly when it has at most 64 bits, else the nearest double.
func OfBig(i *big.Int) Value {
	if i.BitLen() <= maxIntegerBits {
		return Value{kind: Number, integer: i}
	}
	f, _ := new(big.Float).SetInt(i).Float64()
	return Value{kind: Number, float: f}
}

// OfArray returns an array of the items, which it takes over.
func OfArray(items []Value) Value {
	if cap(items) == 0 {
		items = make([]Value, 0, 1) // one that nothing else is: some languages ask whether two arrays are the same
	}
	return Value{kind: Array, items: items}
}

// OfStruct returns a struct of the fields, which it takes over.
func OfStruct(fields map[string]Value) Value { return Value{kind: Struct, fields: fields} }

// ParseNumber reads a number in JSON's syntax.
func ParseNumber(text string) (Value, error) {
	if !strings.ContainsAny(text, ".eE") && len(text) <= 20 {
		if i, ok := new(big.Int).SetString(text, 10); ok && i.BitLen() <= maxIntegerBits {
			return Value{kind: Number, integer: i}, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return Value{}, fmt.Errorf("%q is not a number that fits in 64 bits", shorten(text))
	}
	return OfFloat(f), nil
}

func shorten(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "…"
	}
	return s
}

// Kind returns the value's kind.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports whether the value is null.
func (v Value) IsNull() bool { return v.kind == Null }

// Bool returns the boolean; false for every other kind.
func (v Value) Bool() bool { return v.boolean }

// Str returns the text of a string; "" for every other kind. Text gives the text of any value.
func (v Value) Str() string { return v.text }

// Integer returns the number as an exact integer, if it is one.
func (v Value) Integer() (*big.Int, bool) { return v.integer, v.integer != nil }

// Float returns the number as the nearest double; 0 for every other kind.
func (v Value) Float() float64 {
	if v.integer != nil {
		f, _ := new(big.Float).SetInt(v.integer).Float64()
		return f
	}
	return v.float
}

// Items returns the items of an array; nil for every other kind. The caller must not change them.
func (v Value) Items() []Value { return v.items }

// Fields returns the fields of a struct; nil for every other kind. The caller must not change them.
func (v Value) Fields() map[string]Value { return v.fields }

// Keys returns the names of a struct's fields, sorted.
func (v Value) Keys() []string {
	keys := make([]string, 0, len(v.fields))
	for k := range v.fields {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Sensitive reports whether the value, or anything inside it, must not be shown.
func (v Value) Sensitive() bool {
	if v.sensitive {
		return true
	}
	for _, item := range v.items {
		if item.Sensitive() {
			return true
		}
	}
	for _, field := range v.fields {
		if field.Sensitive() {
			return true
		}
	}
	return false
}

// Marked reports whether the value as a whole is marked, not only a part of it.
func (v Value) Marked() bool { return v.sensitive }

// Mark returns the value marked sensitive as a whole when sensitive is true; it never takes a mark away.
func (v Value) Mark(sensitive bool) Value {
	if sensitive {
		v.sensitive, v.secrets = true, nil
	}
	return v
}

// MarkFor returns a string marked sensitive for the secrets in it, if there are any: Secrets finds these, and not what is around them.
func (v Value) MarkFor(secrets []string) Value {
	if len(secrets) > 0 && !v.sensitive {
		v.sensitive, v.secrets = true, secrets
	}
	return v
}

// Secrets calls found with the text of every sensitive scalar inside the value, and of every sensitive value as a whole.
func (v Value) Secrets(found func(text string)) { v.find(false, found) }

func (v Value) find(inherited bool, found func(string)) {
	if len(v.secrets) > 0 && !inherited {
		for _, text := range v.secrets {
			found(text)
		}
		return
	}
	sensitive := inherited || v.sensitive
	switch v.kind {
	case Array:
		for _, item := range v.items {
			item.find(sensitive, found)
		}
	case Struct:
		for _, field := range v.fields {
			field.find(sensitive, found)
		}
	}
	if sensitive && v.kind != Null && v.kind != Boolean {
		found(v.Text())
	}
}

// Truthy reports whether the value counts as true in a condition: false, "", 0, [], {} and null do not.
func (v Value) Truthy() bool {
	switch v.kind {
	case Boolean:
		return v.boolean
	case Number:
		if v.integer != nil {
			return v.integer.Sign() != 0
		}
		return v.float != 0
	case String:
		return v.text != ""
	case Array:
		return len(v.items) > 0
	case Struct:
		return len(v.fields) > 0
	default:
		return false
	}
}

// Text returns the value as it reads inside other text: a string as it is, null as "<null>", all else as compact JSON.
func (v Value) Text() string {
	switch v.kind {
	case String:
		return v.text
	case Null:
		return "<null>"
	default:
		return string(v.AppendJSON(nil))
	}
}

// AppendJSON appends the value as compact JSON with sorted keys. It shows sensitive values: what records or prints them
// must replace them first.
func (v Value) AppendJSON(b []byte) []byte {
	switch v.kind {
	case Boolean:
		return strconv.AppendBool(b, v.boolean)
	case Number:
		if v.integer != nil {
			return v.integer.Append(b, 10)
		}
		return appendFloat(b, v.float)
	case String:
		return appendString(b, v.text)
	case Array:
		b = append(b, '[')
		for i, item := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.AppendJSON(b)
		}
		return append(b, ']')
	case Struct:
		b = append(b, '{')
		for i, key := range v.Keys() {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, key), ':')
			b = v.fields[key].AppendJSON(b)
		}
		return append(b, '}')
	default:
		return append(b, "null"...)
	}
}

// appendFloat writes whole numbers in full up to 1e21, as JSON in JavaScript does, and never loses a digit.
func appendFloat(b []byte, f float64) []byte {
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.AppendFloat(b, f, 'e', -1, 64)
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}

func appendString(b []byte, s string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}

// MarshalJSON returns the value as JSON; see AppendJSON.
func (v Value) MarshalJSON() ([]byte, error) { return v.AppendJSON(nil), nil }

// UnmarshalJSON reads any JSON value.
func (v *Value) UnmarshalJSON(data []byte) error {
	parsed, err := ParseJSON(data)
	if err != nil {
		return err
	}
	*v = parsed
	return nil
}

// MaxDepth is how deep arrays and structs may nest. Deeper input is refused, so that nothing that walks a value can run
// out of stack.
const MaxDepth = 200

// ErrTooDeep is returned for values that nest deeper than MaxDepth.
var ErrTooDeep = fmt.Errorf("nested deeper than %d levels", MaxDepth)

// ParseJSON reads exactly one JSON value, keeping integers exact.
func ParseJSON(data []byte) (Value, error) {
	if !utf8.Valid(data) {
		return Value{}, errors.New("not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var raw any
	if err := dec.Decode(&raw); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return Value{}, errors.New("unexpected end of JSON input")
		}
		return Value{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Value{}, errors.New("unexpected text after the JSON value")
	}
	return Of(raw)
}

// Of converts plain Go data (nil, bool, string, json.Number, int, int64, uint64, float64, []any, map[string]any, Value).
func Of(raw any) (Value, error) { return of(raw, 0) }

func of(raw any, depth int) (Value, error) {
	if depth > MaxDepth {
		return Value{}, ErrTooDeep
	}
	switch x := raw.(type) {
	case nil:
		return Value{}, nil
	case Value:
		return x, nil
	case bool:
		return OfBool(x), nil
	case string:
		return OfString(x), nil
	case json.Number:
		return ParseNumber(x.String())
	case int:
		return OfInt(int64(x)), nil
	case int64:
		return OfInt(x), nil
	case uint64:
		return OfBig(new(big.Int).SetUint64(x)), nil
	case float64:
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return Value{}, errors.New("infinity and NaN are not numbers a step can use")
		}
		return OfFloat(x), nil
	case []any:
		items := make([]Value, len(x))
		for i, item := range x {
			v, err := of(item, depth+1)
			if err != nil {
				return Value{}, err
			}
			items[i] = v
		}
		return OfArray(items), nil
	case map[string]any:
		fields := make(map[string]Value, len(x))
		for k, item := range x {
			v, err := of(item, depth+1)
			if err != nil {
				return Value{}, err
			}
			fields[k] = v
		}
		return OfStruct(fields), nil
	default:
		return Value{}, fmt.Errorf("cannot use a Go %T as a value", raw)
	}
}

// Equal reports whether two values are the same. Values of different kinds never are. Marks do not count.
func Equal(a, b Value) bool { return a.kind == b.kind && Compare(a, b) == 0 }

// Compare orders any two values: by kind first, then numbers by size, strings by bytes, arrays item by item, structs by
// size, then keys, then values. It returns -1, 0 or 1.
func Compare(a, b Value) int {
	if a.kind != b.kind {
		return cmp.Compare(a.kind, b.kind)
	}
	switch a.kind {
	case Boolean:
		return cmp.Compare(boolRank(a.boolean), boolRank(b.boolean))
	case Number:
		if a.integer != nil && b.integer != nil {
			return a.integer.Cmp(b.integer)
		}
		return a.bigFloat().Cmp(b.bigFloat())
	case String:
		return cmp.Compare(a.text, b.text)
	case Array:
		return slices.CompareFunc(a.items, b.items, Compare)
	case Struct:
		if c := cmp.Compare(len(a.fields), len(b.fields)); c != 0 {
			return c
		}
		ak, bk := a.Keys(), b.Keys()
		if c := slices.Compare(ak, bk); c != 0 {
			return c
		}
		for _, key := range ak {
			if c := Compare(a.fields[key], b.fields[key]); c != 0 {
				return c
			}
		}
	}
	return 0
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// bigFloat holds any double and any 64-bit integer exactly, so that the two compare without rounding.
func (v Value) bigFloat() *big.Float {
	f := new(big.Float).SetPrec(128)
	if v.integer != nil {
		return f.SetInt(v.integer)
	}
	return f.SetFloat64(v.float)
}

// MarshalText writes the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a kind's name.
func (k *Kind) UnmarshalText(text []byte) error {
	parsed, ok := ParseKind(string(text))
	if !ok {
		return fmt.Errorf("%q is not a type; the types are %s", text, strings.Join(KindNames, ", "))
	}
	*k = parsed
	return nil
}
