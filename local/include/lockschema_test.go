package include

import (
	"strings"
	"testing"

	"github.com/rungci/rung/internal/schematest"
)

func TestTheSchemaOfLockFilesAndTheParserAgree(t *testing.T) {
	t.Parallel()
	schema := schematest.Compile(t, LockSchema())
	schema.CheckKeys(t, []string{"kind", "place", "ref", "pin", "content"}, "$defs", "include")
	commit, digest := strings.Repeat("0a", 20), "sha256:"+strings.Repeat("01", 32)
	entry := func(kind, pin, more string) string {
		return "version = 1\n[[include]]\nkind = '" + kind + "'\nplace = 'a'\npin = '" + pin + "'\n" + more
	}
	right := map[string]string{
		"nothing": "version = 1", "a project": entry("project", commit, "ref = 'main'\ncontent = '"+digest+"'"), "an address": entry("remote", digest, ""),
		"a template": entry("template", digest, ""), "a version": entry("version", "1.2.3", "ref = '1'"),
	}
	wrong := map[string]string{
		"no version": "", "another version": "version = 2", "an unknown key": entry("remote", digest, "tag = '1'"), "an unknown kind": entry("file", digest, ""),
		"a branch for a commit": entry("project", "main", "content = '"+digest+"'"), "no content": entry("project", commit, ""), "a commit for a digest": entry("remote", commit, ""),
		"no place": "version = 1\n[[include]]\nkind = 'remote'\npin = '" + digest + "'",
	}
	for _, texts := range []map[string]string{right, wrong} {
		for name, text := range texts {
			_, valid := right[name]
			if _, err := parseLock("includes.lock", []byte(text)); valid != (err == nil) {
				t.Errorf("%s: the parser: %v", name, err)
			}
			if err := schema.TOML(text); valid != (err == nil) {
				t.Errorf("%s: the schema: %v", name, err)
			}
		}
	}
}
