package command

import (
	"encoding/json"
	"io"
)

// WriteJSON prints data as every --json does: indented, with < and & as they are, and a line end.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
