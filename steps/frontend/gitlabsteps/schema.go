package gitlabsteps

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed schema.json
var schemaFile []byte

// StepsSchema returns the JSON schema (draft 2020-12) of what ParseSteps reads: each document of the text must be valid. A schema knows
// neither expressions nor references: text that it accepts may still be wrong.
func StepsSchema() ([]byte, error) { return schema("The steps of a job", nil) }

// FileSchema returns the JSON schema of what ParseFile reads, a step.yml or func.yml: each of its two documents must be valid.
func FileSchema() ([]byte, error) {
	return schema("step.yml and func.yml", map[string]any{"$ref": "#/$defs/file"})
}

// schema returns schema.json with a title, and with another root unless that is nil.
func schema(title string, root map[string]any) ([]byte, error) {
	var tree map[string]any
	if err := json.Unmarshal(schemaFile, &tree); err != nil {
		return nil, fmt.Errorf("schema.json: %w", err)
	}
	if root != nil {
		root["$defs"] = tree["$defs"]
		tree = root
	}
	tree["$schema"], tree["title"] = "https://json-schema.org/draft/2020-12/schema", title+", as step-runner reads them"
	text, err := json.MarshalIndent(tree, "", "  ")
	return append(text, '\n'), err
}
