package expr

import (
	"errors"
	"strconv"

	"github.com/rungci/rung/steps/value"
)

// Check parses every string in v as a template, also inside of arrays and structs and in the keys of structs. It returns
// the first error, an *Error.
func Check(v value.Value) error {
	switch v.Kind() {
	case value.String:
		_, err := ParseTemplate(v.Str())
		return err
	case value.Array:
		for i, item := range v.Items() {
			if err := Check(item); err != nil {
				return within(err, itemPath(i))
			}
		}
	case value.Struct:
		for _, key := range v.Keys() {
			if _, err := ParseTemplate(key); err != nil {
				return within(err, keyPath(key))
			}
			if err := Check(v.Fields()[key]); err != nil {
				return within(err, keyPath(key))
			}
		}
	}
	return nil
}

// Expand evaluates every string in v as a template, also inside of arrays and structs and in the keys of structs. A string
// that is nothing but one expression is replaced by its value. What comes out is not looked at again. Errors are of type
// *Error.
func Expand(v value.Value, s Scope) (value.Value, error) {
	switch v.Kind() {
	case value.String:
		if !Has(v.Str()) {
			return v, nil
		}
		t, err := ParseTemplate(v.Str())
		if err != nil {
			return value.Value{}, err
		}
		result, err := t.Eval(s)
		return result.Mark(v.Marked()), err
	case value.Array:
		items := make([]value.Value, len(v.Items()))
		for i, item := range v.Items() {
			expanded, err := Expand(item, s)
			if err != nil {
				return value.Value{}, within(err, itemPath(i))
			}
			items[i] = expanded
		}
		return value.OfArray(items).Mark(v.Marked()), nil
	case value.Struct:
		return expandStruct(v, s)
	default:
		return v, nil
	}
}

func expandStruct(v value.Value, s Scope) (value.Value, error) {
	fields := make(map[string]value.Value, len(v.Fields()))
	marked := v.Marked()
	for _, name := range v.Keys() {
		key, err := Expand(value.OfString(name), s)
		if err != nil {
			return value.Value{}, within(err, keyPath(name))
		}
		if key.Kind() != value.String {
			return value.Value{}, within(&Error{Length: 1, Message: "a key must be a string, not " + key.Kind().WithArticle(),
				Hint: "str(value) makes a string"}, keyPath(name))
		}
		if _, ok := fields[key.Str()]; ok {
			return value.Value{}, within(&Error{Length: 1, Message: "the key " + quoteKey(key) + " is given twice"}, keyPath(name))
		}
		marked = marked || key.Marked()
		if fields[key.Str()], err = Expand(v.Fields()[name], s); err != nil {
			return value.Value{}, within(err, keyPath(name))
		}
	}
	return value.OfStruct(fields).Mark(marked), nil
}

// within returns the error with the given step before its path.
func within(err error, step string) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	located := *e
	located.Path = step + e.Path
	return &located
}

func itemPath(i int) string { return "[" + strconv.Itoa(i) + "]" }

func keyPath(key string) string {
	if key != "" && nameLength(key) == len(key) {
		return "." + key
	}
	return "[" + quote(key) + "]"
}

// EscapeValue returns a value that Expand yields v from: every string in it, and every key, escaped.
func EscapeValue(v value.Value) value.Value {
	switch v.Kind() {
	case value.String:
		return value.OfString(Escape(v.Str())).Mark(v.Marked())
	case value.Array:
		items := make([]value.Value, len(v.Items()))
		for i, item := range v.Items() {
			items[i] = EscapeValue(item)
		}
		return value.OfArray(items).Mark(v.Marked())
	case value.Struct:
		fields := make(map[string]value.Value, len(v.Fields()))
		for key, field := range v.Fields() {
			fields[Escape(key)] = EscapeValue(field)
		}
		return value.OfStruct(fields).Mark(v.Marked())
	default:
		return v
	}
}
