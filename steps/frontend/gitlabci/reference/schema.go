package reference

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed schema.json
var schemaFile []byte

// keywordMark is the key in schema.json that names the keyword whose text becomes the description.
const keywordMark = "x-keyword"

// Schema returns the JSON schema (draft 2020-12) of a .gitlab-ci.yml, for editors. What comes of includes, extends and inputs it cannot
// know: a file that it accepts may yet be wrong, and `step-runner lint` says how.
func Schema() ([]byte, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	texts := make(map[string]string, len(all))
	for _, k := range all {
		texts[k.Name] = k.Text
	}
	var tree any
	if err := json.Unmarshal(schemaFile, &tree); err != nil {
		return nil, fmt.Errorf("schema.json: %w", err)
	}
	if err := describe(tree, texts); err != nil {
		return nil, err
	}
	out, err := json.MarshalIndent(tree, "", "  ")
	return append(out, '\n'), err
}

// describe puts the texts in the places of the marks.
func describe(tree any, texts map[string]string) error {
	switch t := tree.(type) {
	case map[string]any:
		if name, ok := t[keywordMark].(string); ok {
			text, known := texts[name]
			if !known {
				return fmt.Errorf("schema.json: there is no keyword %q", name)
			}
			delete(t, keywordMark)
			t["description"] = text
		}
		for _, v := range t {
			if err := describe(v, texts); err != nil {
				return err
			}
		}
	case []any:
		for _, v := range t {
			if err := describe(v, texts); err != nil {
				return err
			}
		}
	}
	return nil
}
