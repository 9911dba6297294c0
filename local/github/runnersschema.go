package github

import _ "embed"

//go:embed runners.schema.json
var runnersSchema []byte

// RunnersSchema returns the JSON schema (draft 2020-12) of runners.yml.
func RunnersSchema() []byte { return runnersSchema }
