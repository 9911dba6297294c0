package settings

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema returns the JSON schema (draft 2020-12) of variables.yml.
func Schema() []byte { return schema }
