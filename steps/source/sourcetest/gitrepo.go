package sourcetest

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// GitRepo writes a bare Git repository, without the git program. The same calls make the same commits.
type GitRepo struct {
	Dir string
}

// GitEntry is an entry of a folder in a GitRepo: a file ("100644", "100755"), a link ("120000", whose content is where it
// leads to), a folder ("40000") or a submodule ("160000").
type GitEntry struct {
	Mode, Name, Hash string
}

// GitFile is a file to be committed. Mode is "" for a plain file.
type GitFile struct {
	Mode, Content string
}

// NewGitRepo makes an empty repository whose default branch is main.
func NewGitRepo(dir string) (*GitRepo, error) {
	for _, folder := range []string{"objects/pack", "objects/info", "refs/heads", "refs/tags"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			return nil, err
		}
	}
	r := &GitRepo{dir}
	if err := r.write("config", []byte("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")); err != nil {
		return nil, err
	}
	return r, r.write("HEAD", []byte("ref: refs/heads/main\n"))
}

func (r *GitRepo) write(name string, text []byte) error {
	full := filepath.Join(r.Dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	return os.WriteFile(full, text, 0o644)
}

// Object stores an object of the type blob, tree, commit or tag and returns its name.
func (r *GitRepo) Object(typ string, content []byte) (string, error) {
	raw := append(fmt.Appendf(nil, "%s %d\x00", typ, len(content)), content...)
	sum := sha1.Sum(raw)
	name := hex.EncodeToString(sum[:])
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, _ = z.Write(raw)
	if err := z.Close(); err != nil {
		return "", err
	}
	return name, r.write("objects/"+name[:2]+"/"+name[2:], packed.Bytes())
}

// Tree stores a folder with the entries as they are given, whatever they are.
func (r *GitRepo) Tree(entries ...GitEntry) (string, error) {
	var content []byte
	for _, e := range entries {
		sum, err := hex.DecodeString(e.Hash)
		if err != nil {
			return "", err
		}
		content = append(fmt.Appendf(content, "%s %s\x00", e.Mode, e.Name), sum...)
	}
	return r.Object("tree", content)
}

// Files stores a folder with files by their paths.
func (r *GitRepo) Files(files map[string]GitFile) (string, error) {
	var entries []GitEntry
	folders := map[string]map[string]GitFile{}
	for name, file := range files {
		if folder, rest, ok := strings.Cut(name, "/"); ok {
			if folders[folder] == nil {
				folders[folder] = map[string]GitFile{}
			}
			folders[folder][rest] = file
			continue
		}
		e := GitEntry{Mode: file.Mode, Name: name, Hash: file.Content}
		if e.Mode == "" {
			e.Mode = "100644"
		}
		if e.Mode != "160000" {
			var err error
			if e.Hash, err = r.Object("blob", []byte(file.Content)); err != nil {
				return "", err
			}
		}
		entries = append(entries, e)
	}
	for name, inner := range folders {
		hash, err := r.Files(inner)
		if err != nil {
			return "", err
		}
		entries = append(entries, GitEntry{"40000", name, hash})
	}
	key := func(e GitEntry) string {
		if e.Mode == "40000" {
			return e.Name + "/"
		}
		return e.Name
	}
	slices.SortFunc(entries, func(a, b GitEntry) int { return strings.Compare(key(a), key(b)) })
	return r.Tree(entries...)
}

// Commit stores a commit. The message makes it another one.
func (r *GitRepo) Commit(tree, message string, parents ...string) (string, error) {
	const who = "A U Thor <author@example.com> 1700000000 +0000"
	text := "tree " + tree + "\n"
	for _, parent := range parents {
		text += "parent " + parent + "\n"
	}
	return r.Object("commit", []byte(text+"author "+who+"\ncommitter "+who+"\n\n"+message+"\n"))
}

// Push commits files to a branch, on top of what is there.
func (r *GitRepo) Push(branch, message string, files map[string]GitFile) (string, error) {
	tree, err := r.Files(files)
	if err != nil {
		return "", err
	}
	var parents []string
	if tip, err := os.ReadFile(filepath.Join(r.Dir, "refs", "heads", filepath.FromSlash(branch))); err == nil {
		parents = append(parents, strings.TrimSpace(string(tip)))
	}
	commit, err := r.Commit(tree, message, parents...)
	if err != nil {
		return "", err
	}
	return commit, r.Set("refs/heads/"+branch, commit)
}

// Set makes a ref, for example "refs/tags/v1", point to an object.
func (r *GitRepo) Set(ref, object string) error { return r.write(ref, []byte(object+"\n")) }

// Annotate makes an annotated tag of a commit, or of what else typ says, and returns the tag's own name.
func (r *GitRepo) Annotate(tag, typ, object string) (string, error) {
	text := "object " + object + "\ntype " + typ + "\ntag " + tag + "\ntagger A U Thor <author@example.com> 1700000000 +0000\n\n" + tag + "\n"
	hash, err := r.Object("tag", []byte(text))
	if err != nil {
		return "", err
	}
	return hash, r.Set("refs/tags/"+tag, hash)
}
