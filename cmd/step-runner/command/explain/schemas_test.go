package explain

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rungci/rung/internal/schematest"
)

const root = "../../../.."

// comment is the line in which a file names its schema for editors.
var comment = regexp.MustCompile(`^(?:# yaml-language-server: \$schema=|#:schema )(\S+)\n`)

func TestExamplesAreValidUnderTheSchemasThatTheyName(t *testing.T) {
	t.Parallel()
	compiled := map[string]*schematest.Schema{}
	for _, s := range schemas {
		text, err := s.text()
		if err != nil {
			t.Fatal(err)
		}
		compiled[filepath.Join(root, "bin", "schemas", s.name+".schema.json")] = schematest.Compile(t, text)
	}
	tried := 0
	err := filepath.WalkDir(filepath.Join(root, "examples"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		text := strings.ReplaceAll(string(data), "\r\n", "\n")
		found := comment.FindStringSubmatch(text)
		if err != nil || found == nil {
			return err
		}
		tried++
		schema := compiled[filepath.Join(filepath.Dir(path), filepath.FromSlash(found[1]))]
		switch {
		case schema == nil:
			t.Errorf("%s names %s, which `make schemas` does not write", path, found[1])
		case filepath.Ext(path) != ".toml": // sources.toml is tried beside its parser
			if err := schema.YAML(text); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return nil
	})
	if err != nil || tried < 8 {
		t.Errorf("tried %d examples: %v", tried, err)
	}
}

func TestTheScriptWritesEverySchema(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile(filepath.Join(root, "scripts", "schemas.sh"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range schemas {
		names = append(names, s.name)
	}
	if loop := "for name in " + strings.Join(names, " ") + "; do"; !strings.Contains(string(script), loop) {
		t.Errorf("scripts/schemas.sh has no line %q", loop)
	}
}
