package federation

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema returns the JSON schema (draft 2020-12) of sources.toml. It knows neither URLs nor files: what it accepts may still be wrong.
func Schema() []byte { return schema }
