// Package schematest checks JSON schemas against what they describe, with an independent validator.
package schematest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rungci/rung/internal/yamlsource"
)

// Schema is a compiled schema.
type Schema struct {
	schema *jsonschema.Schema
	tree   map[string]any
}

// Compile compiles the text of a schema.
func Compile(t *testing.T, text []byte) *Schema {
	t.Helper()
	s, err := New(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// New is Compile outside of a test.
func New(text []byte) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		return nil, err
	}
	tree, ok := doc.(map[string]any)
	if !ok {
		return nil, errors.New("the schema is not an object")
	}
	return &Schema{compiled, tree}, nil
}

// YAML validates every document of a text, as editors do.
func (s *Schema) YAML(text string) error {
	file, err := yamlsource.Parse("text.yml", []byte(text))
	if err != nil {
		return err
	}
	for i, doc := range file.Documents {
		var plain any
		if err := json.Unmarshal(doc.Value().AppendJSON(nil), &plain); err != nil {
			return err
		}
		if err := s.schema.Validate(plain); err != nil {
			return fmt.Errorf("document %d: %w", i+1, err)
		}
	}
	return nil
}

// TOML validates a text, as editors do.
func (s *Schema) TOML(text string) error {
	tree := map[string]any{}
	if err := toml.Unmarshal([]byte(text), &tree); err != nil {
		return err
	}
	return s.Value(tree)
}

// Value validates what encoding/json makes of a value.
func (s *Schema) Value(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.schema.Validate(plain)
}

// At returns the part of the schema at a path of keys, nil when it has none.
func (s *Schema) At(path ...string) any {
	var at any = s.tree
	for _, key := range path {
		m, _ := at.(map[string]any)
		at = m[key]
	}
	return at
}

// CheckKeys holds the properties of the map at a path against the keys that the parser knows.
func (s *Schema) CheckKeys(t *testing.T, known []string, path ...string) {
	t.Helper()
	properties, _ := s.At(append(path, "properties")...).(map[string]any)
	have := slices.Sorted(maps.Keys(properties))
	if want := slices.Sorted(slices.Values(known)); !slices.Equal(have, want) {
		t.Errorf("%s: the schema has the keys %q, and the parser %q", strings.Join(path, "/"), have, want)
	}
	if s.At(append(path, "additionalProperties")...) != false {
		t.Errorf("%s: the schema allows unknown keys", strings.Join(path, "/"))
	}
}

var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// Snippets returns the blocks of code in a language that the documents in the given files have, by their places. A file is a pattern.
func Snippets(t *testing.T, language string, patterns ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.FromSlash(pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(string(data), "\r\n", "\n")
			for _, at := range fence.FindAllStringSubmatchIndex(text, -1) {
				if text[at[2]:at[3]] == language {
					found[fmt.Sprintf("%s:%d", filepath.Base(file), strings.Count(text[:at[4]], "\n")+1)] = text[at[4]:at[5]]
				}
			}
		}
	}
	return found
}
