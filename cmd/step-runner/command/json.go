package command

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/rungci/rung/internal/cleantext"
)

// WriteJSON prints data as every --json does: indented, with < and & as they are, and a line end. What would do more to a terminal than show
// itself is escaped.
func WriteJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(cleantext.JSON(b.Bytes()))
	return err
}
