package github

import (
	"strings"
	"testing"

	"github.com/rungci/rung/internal/schematest"
)

func TestTheSchemaOfRunnersAndTheParserAgree(t *testing.T) {
	t.Parallel()
	schema := schematest.Compile(t, RunnersSchema())
	schema.CheckKeys(t, runnerKeys, "additionalProperties")
	right := map[string]string{"an empty file": "", "a container": "a: {isolation: container, image: b}", "nothing": "a: {}"}
	for place, text := range schematest.Snippets(t, "yaml", "../../docs/github-workflows.md") {
		if strings.HasPrefix(text, "ubuntu-latest: ") {
			right[place] = text
		}
	}
	if len(right) != 4 {
		t.Fatal("the manual has no example")
	}
	wrong := map[string]string{
		"a list": "[a]", "a text": "a: b", "an unknown key": "a: {images: b}", "no image": "a: {isolation: container}", "an empty image": "a: {image: ''}",
		"an image without a container": "a: {isolation: none, image: b}", "an unknown level": "a: {isolation: vm}",
	}
	for _, texts := range []map[string]string{right, wrong} {
		for name, text := range texts {
			_, known := right[name]
			if _, err := ParseRunners("runners.yml", []byte(text)); known != (err == nil) {
				t.Errorf("%s: the parser: %v", name, err)
			}
			if err := schema.YAML(text); known != (err == nil) {
				t.Errorf("%s: the schema: %v", name, err)
			}
		}
	}
}
