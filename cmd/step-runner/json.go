package main

import (
	"encoding/json"
	"io"
)

// writeJSON prints data as every --json does: indented, with < and & as they are, and a line end.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
