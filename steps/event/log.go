package event

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"

	"github.com/rungci/rung/steps/value"
)

// logJSON carries text as text, and what is not UTF-8 in base64, so that both come back byte for byte.
type logJSON struct {
	Stream Stream `json:"stream"`
	Offset int64  `json:"offset"`
	Text   string `json:"text,omitempty"`
	Base64 string `json:"base64,omitempty"`
}

// IsText reports whether log data is better kept as text: it is UTF-8, and not so full of NUL bytes, six characters each in
// JSON, that base64 is shorter.
func IsText(data []byte) bool {
	return bytes.Count(data, []byte{0}) <= len(data)/16 && utf8.Valid(data)
}

// MarshalJSON writes {"stream":…,"offset":…,"text":…}, or "base64" where the data is not text.
func (l Log) MarshalJSON() ([]byte, error) {
	j := logJSON{Stream: l.Stream, Offset: l.Offset}
	if IsText(l.Data) {
		j.Text = string(l.Data)
	} else {
		j.Base64 = base64.StdEncoding.EncodeToString(l.Data)
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *Log) UnmarshalJSON(data []byte) error {
	var j logJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*l = Log{Stream: j.Stream, Offset: j.Offset, Data: []byte(j.Text)}
	if j.Base64 != "" {
		raw, err := base64.StdEncoding.DecodeString(j.Base64)
		if err != nil {
			return err
		}
		l.Data = raw
	}
	return nil
}

// sensitiveKey marks the stand-in of a sensitive value in recorded data.
const sensitiveKey = "$sensitive"

// Placeholder stands in recorded data where the digest of a sensitive value would, when that was not known and a placeholder took its place.
const Placeholder = "placeholder"

// Redacted returns the stand-in for a sensitive value: {"$sensitive": digest}.
func Redacted(digest string) value.Value {
	return value.OfStruct(map[string]value.Value{sensitiveKey: value.OfString(digest)})
}

// IsRedacted returns the digest of a stand-in made by Redacted.
func IsRedacted(v value.Value) (digest string, ok bool) {
	if v.Kind() != value.Struct || len(v.Fields()) != 1 {
		return "", false
	}
	d, ok := v.Fields()[sensitiveKey]
	return d.Str(), ok && d.Kind() == value.String
}
