package federation

import (
	"os"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/rungci/rung/internal/schematest"
)

func TestTheSchemaAndTheParserAgree(t *testing.T) {
	t.Parallel()
	schema := schematest.Compile(t, Schema())
	schema.CheckKeys(t, keys, "$defs", "source")
	right := schematest.Snippets(t, "toml", "../../../docs/sources.md", "../../../docs/actions.md", "../../../docs/trust.md")
	for place, text := range right {
		if !isSources(text) {
			delete(right, place) // a lock file
		}
	}
	if len(right) < 2 {
		t.Fatalf("the documents have %d examples", len(right))
	}
	example, err := os.ReadFile("../../../examples/actions/sources.toml")
	if err != nil {
		t.Fatal(err)
	}
	right["the example"] = string(example)
	const entry = "[[source]]\nmatch = \"a.example/\"\n"
	right["a proxy"] = entry + `proxy = "socks5://localhost:1"`
	right["no proxy"] = entry + `proxy = "none"`
	right["a token"] = entry + "username = \"u\"\ntoken_env = \"T\""
	right["a time"] = entry + `refresh = "1h30m"`
	right["nobody's signature"] = entry + `signed_by = []`
	wrong := map[string]string{
		"an unknown key":          entry + `repalce = "b"`,
		"an unknown table":        "[[sources]]\nmatch = \"a/\"",
		"one bracket":             "[source]\nmatch = \"a/\"",
		"no match":                "[[source]]\ndeny = true",
		"an empty text":           entry + `replace = ""`,
		"a number for a text":     entry + `username = 1`,
		"a text for a truth":      entry + `deny = "yes"`,
		"a user alone":            entry + `username = "u"`,
		"half a certificate":      entry + `client_cert = "c.pem"`,
		"a proxy over ftp":        entry + `proxy = "ftp://a"`,
		"a time without a unit":   entry + `refresh = "soon"`,
		"a time that is negative": entry + `refresh = "-1s"`,
		"no signatures demanded":  entry + "signed_by = [\"a\"]\nthreshold = 0",
		"a key that is a number":  entry + `signed_by = [1]`,
		"a reason for nothing":    entry + `reason = "r"`,
	}
	for _, texts := range []map[string]string{right, wrong} {
		for name, text := range texts {
			_, known := right[name]
			if _, err := parse("sources.toml", []byte(text), false); known != (err == nil) {
				t.Errorf("%s: the parser: %v", name, err)
			}
			var tree map[string]any
			if err := toml.Unmarshal([]byte(text), &tree); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := schema.Value(tree); known != (err == nil) {
				t.Errorf("%s: the schema: %v", name, err)
			}
		}
	}
}

// isSources reports whether TOML is a file of sources, and not a lock file.
func isSources(text string) bool {
	var tree map[string]any
	return toml.Unmarshal([]byte(text), &tree) == nil && tree["source"] != nil
}
