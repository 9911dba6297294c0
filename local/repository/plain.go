package repository

import (
	"os"
	"path/filepath"
	"strings"
)

// maxPlainFile bounds a file of a repository that is read without git, in bytes.
const maxPlainFile = 16 << 20

// readFolder reads what a repository says without the git program: the branch, the commit's name, the remote.
func (r *Repository) readFolder() {
	root, dir := findFolder(r.Root)
	if dir == "" {
		return
	}
	r.Root = root
	head := strings.TrimSpace(readSmall(filepath.Join(dir, "HEAD")))
	common := dir
	if link := strings.TrimSpace(readSmall(filepath.Join(dir, "commondir"))); link != "" { // of a worktree
		if common = filepath.FromSlash(link); !filepath.IsAbs(common) {
			common = filepath.Join(dir, common)
		}
	}
	sha := head
	if ref, ok := strings.CutPrefix(head, "ref: "); ok {
		r.Branch = strings.TrimPrefix(ref, "refs/heads/")
		if sha = looseRef(dir, ref); sha == "" {
			sha = looseRef(common, ref)
		}
		if sha == "" {
			sha = packedRef(common, ref)
		}
	}
	if isHash(sha) {
		if len(sha) == 64 {
			r.ObjectFormat = "sha256"
		}
		r.Commit = &Commit{SHA: sha, ShortSHA: sha[:shortSHA]}
	}
	r.readConfig(filepath.Join(common, "config"))
	if target := strings.TrimSpace(readSmall(filepath.Join(common, "refs", "remotes", "origin", "HEAD"))); r.Remote == "origin" {
		r.DefaultBranch, _ = strings.CutPrefix(target, "ref: refs/remotes/origin/")
	}
}

// findFolder goes up from a folder to the one that holds .git, and returns both.
func findFolder(from string) (root, dir string) {
	for at := from; ; at = filepath.Dir(at) {
		name := filepath.Join(at, ".git")
		info, err := os.Stat(name)
		if err == nil && info.IsDir() {
			return at, name
		}
		if err == nil {
			if link, ok := strings.CutPrefix(strings.TrimSpace(readSmall(name)), "gitdir: "); ok {
				if link = filepath.FromSlash(link); !filepath.IsAbs(link) {
					link = filepath.Join(at, link)
				}
				return at, link
			}
		}
		if filepath.Dir(at) == at {
			return "", ""
		}
	}
}

func readSmall(name string) string {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxPlainFile {
		return ""
	}
	text, _ := os.ReadFile(name)
	return string(text)
}

// looseRef returns what a ref points to that has a file of its own.
func looseRef(dir, ref string) string {
	if !filepath.IsLocal(filepath.FromSlash(ref)) {
		return ""
	}
	sha := strings.TrimSpace(readSmall(filepath.Join(dir, filepath.FromSlash(ref))))
	if !isHash(sha) {
		return ""
	}
	return sha
}

func packedRef(dir, ref string) string {
	for line := range strings.Lines(readSmall(filepath.Join(dir, "packed-refs"))) {
		if sha, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == ref && isHash(sha) {
			return sha
		}
	}
	return ""
}

func isHash(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}

// readConfig reads the URLs of remotes in a repository's own configuration. It knows no includes.
func (r *Repository) readConfig(file string) {
	var c config
	section := ""
	for line := range strings.Lines(readSmall(file)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			kind, name, _ := strings.Cut(strings.Trim(line, "[]"), " ")
			section = strings.ToLower(kind) + "." + strings.Trim(name, `"`)
		} else if key, value, ok := strings.Cut(line, "="); ok {
			c = append(c, setting{section + "." + strings.ToLower(strings.TrimSpace(key)), strings.Trim(strings.TrimSpace(value), `"`)})
		}
	}
	opening{r}.takeRemote(c)
}
