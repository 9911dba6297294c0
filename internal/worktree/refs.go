package worktree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// refTable is the refs of a repository that are in packed-refs of the copy: those of the original's, and its branches, which are
// files of their own in the original. One file for all of them costs less than one each.
type refTable struct {
	header string
	refs   map[string]packedRef
}

type packedRef struct{ commit, peeled string }

// commit returns what a ref points to, "" when it is not there.
func (t *refTable) commit(ref string) string { return t.refs[ref].commit }

// peeledHeader says that refs without a line of what they lead to are commits themselves. It is what git writes.
const peeledHeader = "# pack-refs with: peeled fully-peeled sorted \n"

// leftRefs are refs of one work tree, and what a person has put aside. No job sees them.
var leftRefs = []string{"refs/bisect/", "refs/worktree/", "refs/rewritten/", "refs/stash"}

func left(ref string) bool {
	return slices.ContainsFunc(leftRefs, func(prefix string) bool { return strings.HasPrefix(ref, prefix) })
}

// copyRefs copies the refs. The table is nil when the repository has one of its own kind (reftable), which is copied as it is.
func (r *repository) copyRefs(to string) (*refTable, error) {
	if r.config.get("extensions.refstorage") == "reftable" {
		if r.dir != r.common {
			return nil, errors.New("the repository keeps its refs in tables (reftable) and has several work trees, which cannot be copied; copy its main work tree")
		}
		return nil, copyFolder(r.common, to, "reftable")
	}
	text, _, err := readFile(r.common, "packed-refs", MaxRefs)
	if err != nil && !gone(err) {
		return nil, err
	}
	table := parsePacked(string(text))
	if err := r.looseRefs(table, to); err != nil {
		return nil, err
	}
	if len(table.refs) == 0 {
		return table, nil
	}
	return table, os.WriteFile(filepath.Join(to, "packed-refs"), table.text(), 0o666)
}

func parsePacked(text string) *refTable {
	t := &refTable{header: peeledHeader, refs: make(map[string]packedRef, strings.Count(text, "\n"))}
	last := ""
	for line := range strings.Lines(text) {
		full := line
		line = strings.TrimRight(line, "\n")
		commit, ref, ok := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(line, "#"):
			t.header = full
		case strings.HasPrefix(line, "^") && last != "":
			t.refs[last] = packedRef{t.refs[last].commit, line[1:]}
		case ok && isObjectName(commit) && !left(ref):
			t.refs[ref] = packedRef{commit: commit}
			last = ref
		default:
			last = ""
		}
	}
	// They are written in order, whether they were or not.
	if !strings.Contains(t.header, " sorted") {
		t.header = strings.TrimRight(t.header, "\n ") + " sorted \n"
	}
	return t
}

func (t *refTable) text() []byte {
	names := make([]string, 0, len(t.refs))
	for ref := range t.refs {
		names = append(names, ref)
	}
	slices.Sort(names)
	out := bytes.NewBufferString(t.header)
	for _, ref := range names {
		p := t.refs[ref]
		fmt.Fprintf(out, "%s %s\n", p.commit, ref)
		if p.peeled != "" {
			fmt.Fprintf(out, "^%s\n", p.peeled)
		}
	}
	return out.Bytes()
}

// looseRefs adds branches that are files to the table, and copies other refs: those to refs, and tags, of which the table would have to
// say what they lead to.
func (r *repository) looseRefs(t *refTable, to string) error {
	if err := folderOf(r.common, "refs"); err != nil {
		return err
	}
	root := filepath.Join(r.common, "refs")
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(r.common, path)
		if err != nil {
			return err
		}
		ref := filepath.ToSlash(rel)
		if entry.IsDir() || left(ref) || strings.HasSuffix(ref, ".lock") {
			return nil
		}
		text, _, err := readFile(r.common, ref, maxSmall)
		if gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		commit := strings.TrimSpace(string(text))
		delete(t.refs, ref) // a file counts more than the table
		if branch := strings.HasPrefix(ref, "refs/heads/") || strings.HasPrefix(ref, "refs/remotes/"); branch && isObjectName(commit) {
			t.refs[ref] = packedRef{commit: commit}
			return nil
		}
		return copyText(r.common, to, ref)
	})
}

func isObjectName(text string) bool {
	const sha1Digits, sha256Digits = 40, 64
	return (len(text) == sha1Digits || len(text) == sha256Digits) && strings.Trim(text, "0123456789abcdef") == ""
}

// copyFolder copies a folder of a repository that has plain files only.
func copyFolder(dir, copied, name string) error {
	to := filepath.Join(copied, name)
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	if err := folderOf(dir, name); err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".lock") {
			continue
		}
		text, _, err := readFile(dir, name+"/"+e.Name(), MaxRefs)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, e.Name()), text, 0o666); err != nil {
			return err
		}
	}
	return nil
}
