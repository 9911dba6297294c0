package worktree

import (
	"crypto/sha1"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// FuzzRestamp gives restamp files that are no index, or a broken one: it may change times and nothing else.
func FuzzRestamp(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01"))
	for _, version := range []string{"2", "3", "4"} {
		dir := f.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o666); err != nil {
			f.Fatal(err)
		}
		for _, args := range [][]string{{"init", "--quiet"}, {"add", "a"}, {"update-index", "--index-version=" + version}} {
			cmd := exec.Command("git", args...)
			cmd.Dir = dir
			_ = cmd.Run() // without git the other seeds must do
		}
		if data, err := os.ReadFile(filepath.Join(dir, ".git", "index")); err == nil {
			f.Add(data)
		}
	}
	times := []pair{{name: "a", from: stat{known: true}, to: stat{known: true}}, {name: "b"}}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := len(data)
		restamp(data, times, stamp{1 << 40, 0}, sha1.New())
		if len(data) != before {
			t.Fatal("the length changed")
		}
	})
}

// FuzzPackedRefs holds that a table of refs that was written is read as the same.
func FuzzPackedRefs(f *testing.F) {
	f.Add("# pack-refs with: peeled fully-peeled sorted \n" + "0123456789012345678901234567890123456789 refs/heads/main\n")
	f.Add("0123456789012345678901234567890123456789 refs/tags/v1\n^0123456789012345678901234567890123456789\n^x\n")
	f.Add("\n^\n x\nx \n")
	f.Fuzz(func(t *testing.T, text string) {
		table := parsePacked(text)
		again := parsePacked(string(table.text()))
		if len(again.refs) != len(table.refs) {
			t.Fatalf("%d refs became %d", len(table.refs), len(again.refs))
		}
	})
}
