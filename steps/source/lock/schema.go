package lock

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema returns the JSON schema (draft 2020-12) of lock files. It does not know whether an entry is there twice.
func Schema() []byte { return schema }
