package limits

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema returns the JSON schema (draft 2020-12) of limits.yml.
func Schema() []byte { return schema }
