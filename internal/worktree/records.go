package worktree

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/pack"
)

// A record is a trace, the event log of one, or a bundle. Those that lie in a project without being tracked were made by runs of its jobs: a
// job that was given them would not be the same in its replay, which is begun where its own trace has come to lie.

// recordSuffixes end the names of files that belong to a record: the log beside a trace, and the signatures over it.
var recordSuffixes = []string{".log", ".dsse"}

// eventsSuffix ends the name of the event log that a trace is made of.
const eventsSuffix = ".events"

// maxRecordStart is how much of a file says whether it is a record, in bytes.
const maxRecordStart = 256

// maxBundleEntries is more than a bundle has.
const maxBundleEntries = 20_000

// withoutRecords leaves out the untracked files that are records, and what belongs to them. The names are in order.
func withoutRecords(dir string, names []string, untracked map[string]bool) []string {
	records := map[string]bool{}
	for _, name := range names {
		if untracked[name] && isRecord(filepath.Join(dir, filepath.FromSlash(name))) {
			records[name] = true
			records[strings.TrimSuffix(name, eventsSuffix)] = true // its signatures may be there
		}
	}
	if len(records) == 0 {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool {
		if !untracked[name] {
			return false
		}
		return records[name] && isRecord(filepath.Join(dir, filepath.FromSlash(name))) || slices.ContainsFunc(recordSuffixes, func(suffix string) bool {
			of, cut := strings.CutSuffix(name, suffix)
			return cut && records[of]
		})
	})
}

// isRecord reports whether a regular file is a record.
func isRecord(path string) bool {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	start, err := io.ReadAll(io.LimitReader(f, maxRecordStart))
	switch {
	case err != nil:
		return false
	case bytes.HasPrefix(start, []byte("{\"seq\":1,\"time\":")):
		return bytes.Contains(start, []byte(`"type":"run.started"`))
	case bytes.HasPrefix(start, []byte("PK\x03\x04")) && bytes.Contains(start, []byte("manifest.json")):
		return isBundle(f)
	}
	rest, isObject := bytes.CutPrefix(start, []byte("{"))
	return isObject && bytes.HasPrefix(bytes.TrimLeft(rest, " \r\n\t"), []byte(`"format": "rung.trace/`))
}

// isBundle reports whether an archive is a bundle of ours.
func isBundle(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || pack.CheckZip(f, info.Size(), maxBundleEntries) != nil {
		return false
	}
	archive, err := zip.NewReader(f, info.Size())
	if err != nil || len(archive.File) == 0 || archive.File[0].Name != "manifest.json" {
		return false
	}
	in, err := archive.File[0].Open()
	if err != nil {
		return false
	}
	defer in.Close()
	start, err := io.ReadAll(io.LimitReader(in, maxRecordStart))
	return err == nil && bytes.Contains(start, []byte(`"rung.bundle/`))
}
