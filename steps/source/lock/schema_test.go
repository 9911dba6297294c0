package lock

import (
	"strings"
	"testing"

	"github.com/rungci/rung/internal/schematest"
)

func TestTheSchemaOfLockFilesAndTheParserAgree(t *testing.T) {
	t.Parallel()
	schema := schematest.Compile(t, Schema())
	for table, known := range map[string][]string{
		"package": {"kind", "url", "rev", "pin", "content", "platform", "component"}, "component": {"reference", "path", "file", "digest"},
		"image": {"name", "digest"}, "closed": {"url", "except", "by", "hint"},
	} {
		schema.CheckKeys(t, known, "$defs", table)
	}
	commit, digest := strings.Repeat("0a", 20), "sha256:"+strings.Repeat("01", 32)
	all, err := (&File{
		Packages: []Package{
			{Kind: "git", URL: "https://a.example/b", Rev: "v1", Pin: commit, Components: []Component{{Reference: "b@v1", File: "step.yml", Digest: digest}}},
			{Kind: "oci", URL: "oci://a.example/b", Pin: digest, Content: digest, Platform: "linux/amd64"},
		},
		Images: []Image{{"alpine:3", digest}}, Closed: []Closed{{By: "--locked demands it", Hint: "lock it"}},
	}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	const entry = "version = 1\n[[package]]\n"
	right := map[string]string{"all tables": string(all), "nothing": "version = 1"}
	wrong := map[string]string{
		"no version": "", "another version": "version = 2", "an unknown table": "version = 1\n[[images]]\nname = 'a'",
		"a package without a pin":     entry + "kind = 'git'\nurl = 'a'",
		"a tag for a commit":          entry + "kind = 'git'\nurl = 'a'\npin = 'v1'",
		"a commit for a digest":       entry + "kind = 'oci'\nurl = 'a'\npin = '" + commit + "'\ncontent = '" + digest + "'",
		"an image package without":    entry + "kind = 'oci'\nurl = 'a'\npin = '" + digest + "'",
		"an unknown kind":             entry + "kind = 'ftp'\nurl = 'a'\npin = '" + digest + "'\ncontent = '" + digest + "'",
		"an unknown key":              entry + "kind = 'git'\nurl = 'a'\npin = '" + commit + "'\ntag = 'v1'",
		"an image without a digest":   "version = 1\n[[image]]\nname = 'a'",
		"an image with half a digest": "version = 1\n[[image]]\nname = 'a'\ndigest = 'sha256:01'",
		"an image that has a digest":  "version = 1\n[[image]]\nname = 'a@b'\ndigest = '" + digest + "'",
	}
	for _, texts := range []map[string]string{right, wrong} {
		for name, text := range texts {
			_, valid := right[name]
			if _, err := Parse("steps.lock", []byte(text)); valid != (err == nil) {
				t.Errorf("%s: the parser: %v", name, err)
			}
			if err := schema.TOML(text); valid != (err == nil) {
				t.Errorf("%s: the schema: %v", name, err)
			}
		}
	}
}
