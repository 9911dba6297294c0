package include

import _ "embed"

//go:embed lock.schema.json
var lockSchema []byte

// LockSchema returns the JSON schema (draft 2020-12) of lock files of includes. What it accepts of a version may still be none.
func LockSchema() []byte { return lockSchema }
