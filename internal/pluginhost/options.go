package pluginhost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/rungci/rung/internal/pluginoption"
)

// OptionsText are the options of the configuration, as an object of JSON.
func (c *Config) OptionsText() string {
	if text := string(c.Options); text != "" && text != "null" {
		return text
	}
	return "{}"
}

// CheckOptions holds the options of a configuration against a plugin's schema, and returns them: an object.
func (k *Kind) CheckOptions(c *Config, schema string) (options string, err error) {
	options = c.OptionsText()
	return options, k.check(c, schema, options)
}

func (k *Kind) check(c *Config, schema, options string) error {
	wrong := func(err error) error {
		return &Failure{Kind: k.Name, Plugin: c.Name, Call: "Describe", What: "has a schema of options that is none", Err: err}
	}
	if schema == "" {
		if strings.TrimSpace(options) != "{}" {
			return fmt.Errorf("the %s %q takes no options", k.Name, c.Name)
		}
		return nil
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return wrong(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{}) // a schema refers to nothing outside of itself
	const address = "plugin:///options.json"
	if err := compiler.AddResource(address, document); err != nil {
		return wrong(err)
	}
	compiled, err := compiler.Compile(address)
	if err != nil {
		return wrong(err)
	}
	given, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(options)))
	if err != nil {
		return fmt.Errorf("the options of the %s %q are not JSON: %w", k.Name, c.Name, err)
	}
	var invalid *jsonschema.ValidationError
	switch err := compiled.Validate(given); {
	case errors.As(err, &invalid):
		return &pluginoption.Errors{Of: fmt.Sprintf("the %s %q", k.Name, c.Name), All: mistakes(invalid)}
	case err != nil:
		return fmt.Errorf("the options of the %s %q are wrong: %w", k.Name, c.Name, err)
	}
	return nil
}

// mistakes are what is wrong, each with its place: the schema's address tells the operator nothing.
func mistakes(invalid *jsonschema.ValidationError) (all []*pluginoption.Error) {
	alone := *invalid
	alone.Causes = nil
	one := &pluginoption.Error{Pointer: pluginoption.Join(invalid.InstanceLocation...), Err: errors.New(alone.DetailedOutput().Error.String())}
	for _, cause := range invalid.Causes {
		all = append(all, mistakes(cause)...)
	}
	switch invalid.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf: // what is wrong with each choice does not say that one of them would do
		return append([]*pluginoption.Error{one}, all...)
	}
	if len(all) > 0 {
		return all
	}
	if more, ok := invalid.ErrorKind.(*kind.AdditionalProperties); ok {
		for _, key := range more.Properties {
			all = append(all, &pluginoption.Error{Pointer: one.Pointer, Key: key, Err: fmt.Errorf("additional properties '%s' not allowed", key)})
		}
		return all
	}
	return append(all, one)
}

// wrongOption gives the error of an option that a plugin names its plugin.
func (p *Process) wrongOption(err error) error {
	var one *pluginoption.Error
	if !errors.As(err, &one) {
		return err
	}
	return &pluginoption.Errors{Of: fmt.Sprintf("the %s %q", p.kind.Name, p.name), All: []*pluginoption.Error{one}}
}

// Options are a configuration's as JSON.
func Options(options map[string]any) (json.RawMessage, error) {
	if len(options) == 0 {
		return nil, nil
	}
	return json.Marshal(options)
}
