package pluginhost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
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
	if err := compiled.Validate(given); err != nil {
		return fmt.Errorf("the options of the %s %q are wrong: %w", k.Name, c.Name, inOptions(err))
	}
	return nil
}

// inOptions says where in the options a mistake is: the schema's address tells the operator nothing.
func inOptions(err error) error {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	var lines []string
	for _, line := range strings.Split(invalid.Error(), "\n")[1:] {
		lines = append(lines, strings.TrimPrefix(strings.TrimSpace(line), "- "))
	}
	return errors.New(strings.Join(lines, "; "))
}

// Options are a configuration's as JSON.
func Options(options map[string]any) (json.RawMessage, error) {
	if len(options) == 0 {
		return nil, nil
	}
	return json.Marshal(options)
}
