package worktree_test

import (
	"archive/zip"
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/internal/worktree"
)

// bundleText is a zip archive with a manifest.
func bundleText(t *testing.T, manifest string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create("manifest.json")
	if err == nil {
		_, err = f.Write([]byte(manifest))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestRecordsOfRunsAreNotCopied: a trace in the work tree of its job would make the replay another run.
func TestRecordsOfRunsAreNotCopied(t *testing.T) {
	const document = "{\n  \"format\": \"rung.trace/v1\",\n"
	const events = `{"seq":1,"time":"2026-11-23T01:12:43.031002342Z","type":"run.started","data":{}}`
	records := map[string]string{
		"trace.json": document, "trace.json.log": "log", "trace.json.dsse": "{}", "runs/other": document,
		"killed.json.events": events, "killed.json.events.log": "log", "run.bundle": bundleText(t, `{"format": "rung.bundle/v1"}`), "run.bundle.dsse": "{}",
	}
	kept := map[string]string{
		"tracked.json": document, "tracked.json.log": "log", "build.log": "log", "data.json": "{}", "signed.dsse": "{}",
		"extension.zip": bundleText(t, `{"manifest_version": 3}`), "empty": "",
	}
	r := newRepo(t)
	r.write("tracked.json", document)
	r.git("add", ".")
	r.git("commit", "-qm", "one")
	for name, text := range records {
		r.write(name, text)
	}
	for name, text := range kept {
		r.write(name, text)
	}
	to, _ := copyOf(t, r)
	var got []string
	for _, name := range slices.Sorted(maps.Keys(filesOf(t, to.dir))) {
		if !strings.HasSuffix(name, "/") {
			got = append(got, name)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(kept)), got); diff != "" {
		t.Error(diff)
	}
	t.Run("nor those beside the files of a project without Git", func(t *testing.T) {
		plain := &repo{t, t.TempDir()}
		plain.write("trace.json", document)
		plain.write("file", "text")
		plain.write("testdata/trace.json", document)
		to := filepath.Join(t.TempDir(), "copy")
		if _, err := worktree.Copy(t.Context(), plain.dir, to, worktree.Options{Env: cleanEnv()}); err != nil {
			t.Fatal(err)
		}
		got := slices.Sorted(maps.Keys(filesOf(t, to)))
		if diff := cmp.Diff([]string{"file", "testdata/", "testdata/trace.json"}, got); diff != "" {
			t.Error(diff)
		}
	})
}
