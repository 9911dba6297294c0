package settings

import (
	"strings"
	"testing"

	"github.com/rungci/rung/internal/schematest"
)

func TestTheSchemaAndTheParserAgree(t *testing.T) {
	t.Parallel()
	schema := schematest.Compile(t, Schema())
	schema.CheckKeys(t, keys, "$defs", "variable")
	right := map[string]string{"an empty file": "", "a number": "A: 1", "a scope": "A: {value: 1, environment_scope: production}", "nothing": "A:"}
	for place, text := range schematest.Snippets(t, "yaml", "../../docs/gitlab-ci.md") {
		if strings.HasPrefix(text, "WHO: ") {
			right[place] = text
		}
	}
	if len(right) != 5 {
		t.Fatal("the manual has no example")
	}
	wrong := map[string]string{
		"a list": "[A]", "a name with a dash": "A-B: c", "an unknown key": "A: {value: b, mask: true}", "no value": "A: {masked: true}",
		"a truth in words": "A: {value: b, raw: 'yes'}", "a value that is a list": "A: {value: [b]}", "lists in a list": "A: [[b]]",
	}
	for _, texts := range []map[string]string{right, wrong} {
		for name, text := range texts {
			_, known := right[name]
			if _, err := Parse("variables.yml", []byte(text)); known != (err == nil) {
				t.Errorf("%s: the parser: %v", name, err)
			}
			if err := schema.YAML(text); known != (err == nil) {
				t.Errorf("%s: the schema: %v", name, err)
			}
		}
	}
}
