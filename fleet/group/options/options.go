// Package options reads the options of instance groups: an object of JSON by a schema, with errors that say which option is wrong.
package options

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/rungci/rung/internal/bytesize"
)

// Error is a mistake in one option.
type Error struct {
	// Pointer leads to the option: a JSON pointer (RFC 6901), such as "/hosts/0/address"; empty is the options as a whole.
	Pointer string
	// Message says what is wrong with it, without its name.
	Message string
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return "the options: " + e.Message
	}
	return "the option " + e.Pointer + ": " + e.Message
}

// Errors are all mistakes of options.
type Errors []*Error

func (e Errors) Error() string {
	var all []string
	for _, one := range e {
		all = append(all, one.Error())
	}
	return strings.Join(all, "; ")
}

// At is one mistake, as Errors. The steps lead to the option: names, and numbers from 0.
func At(message string, steps ...any) Errors {
	return Errors{{Pointer: Pointer(steps...), Message: message}}
}

// Pointer is the JSON pointer of steps.
func Pointer(steps ...any) string {
	var out strings.Builder
	for _, step := range steps {
		out.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(fmt.Sprint(step)))
	}
	return out.String()
}

// Decode fills a struct, whose fields have the schema's names, from options. Empty options are an empty object. A mistake of the options is Errors.
func Decode(schema string, text json.RawMessage, into any) error {
	if len(bytes.TrimSpace(text)) == 0 || string(text) == "null" {
		text = json.RawMessage("{}")
	}
	if err := Check(schema, text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			var steps []any
			for _, step := range strings.Split(kind.Field, ".") {
				steps = append(steps, step)
			}
			return At("it must be "+kind.Type.String()+", not "+kind.Value, steps...)
		}
		return At(err.Error())
	}
	return nil
}

// Check holds options against a schema. A mistake of the options is Errors, with all of them; one of the schema is another error.
func Check(schema string, text json.RawMessage) error {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return fmt.Errorf("the schema of the options: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{}) // it refers to nothing outside of itself
	const address = "group:///options.json"
	if err := compiler.AddResource(address, document); err != nil {
		return fmt.Errorf("the schema of the options: %w", err)
	}
	compiled, err := compiler.Compile(address)
	if err != nil {
		return fmt.Errorf("the schema of the options: %w", err)
	}
	given, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return At("they are not JSON: " + err.Error())
	}
	var invalid *jsonschema.ValidationError
	if err = compiled.Validate(given); !errors.As(err, &invalid) {
		return err
	}
	found := mistakes(invalid)
	slices.SortStableFunc(found, func(a, b *Error) int { return cmp.Compare(a.Pointer, b.Pointer) })
	return found
}

// mistakes are those that an error is about.
func mistakes(e *jsonschema.ValidationError) (out Errors) {
	steps := make([]any, len(e.InstanceLocation))
	for i, step := range e.InstanceLocation {
		steps[i] = step
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			out = append(out, At("there is no such option", append(slices.Clone(steps), name)...)...)
		}
		return out
	case *kind.Required:
		for _, name := range k.Missing {
			out = append(out, At(fmt.Sprintf("%q is missing", name), steps...)...)
		}
		return out
	}
	if len(e.Causes) == 0 {
		said := e.BasicOutput().Error
		if said == nil {
			return At("it is wrong", steps...)
		}
		return At(said.String(), steps...)
	}
	for _, cause := range e.Causes {
		out = append(out, mistakes(cause)...)
	}
	return out
}

// Size is a number of bytes: a number, or a text such as "4GiB".
type Size int64

// UnmarshalJSON implements json.Unmarshaler.
func (s *Size) UnmarshalJSON(text []byte) error {
	var number int64
	if json.Unmarshal(text, &number) == nil {
		*s = Size(number)
		return nil
	}
	var size string
	if err := json.Unmarshal(text, &size); err != nil {
		return err
	}
	number, err := bytesize.Parse(size)
	*s = Size(number)
	return err
}

// SizeSchema is the schema of a Size.
const SizeSchema = `{"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?\\s*([kKmMgGtT]?[iI]?[bB]?)$"}]}`
