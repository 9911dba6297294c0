package git

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/internal/projectfile"
)

// Limits of the files that say what is checked out.
const (
	maxRefFile    = 4 << 10 // in bytes
	maxPackedRefs = 64 << 20
	maxSymbolic   = 5 // refs that lead to each other, as for git
)

// checkedOut is the commit that is checked out in a folder that nobody has cleaned, "" where that cannot be told, as with refs in tables. Git is not
// asked: it would run the programs that an earlier job has named in the configuration.
func checkedOut(folder string) string {
	own := filepath.Join(folder, ".git")
	if text, err := projectfile.Read(folder, ".git", maxRefFile); err == nil { // a linked work tree, or a submodule
		to, ok := strings.CutPrefix(string(text), "gitdir:")
		if !ok {
			return ""
		}
		own = joined(folder, to)
	}
	common := own
	if text, err := projectfile.Read(own, "commondir", maxRefFile); err == nil {
		common = joined(own, string(text))
	}
	for _, dir := range []string{own, common} {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			return ""
		}
	}
	return commitOf(own, common, "HEAD", maxSymbolic)
}

// joined is the folder that a file of git's names, which is relative to another one unless it is absolute.
func joined(folder, text string) string {
	to := filepath.FromSlash(strings.TrimSpace(text))
	if filepath.IsAbs(to) {
		return filepath.Clean(to)
	}
	return filepath.Join(folder, to)
}

// commitOf is the commit that a ref leads to, in the folder of a work tree or the common one of all work trees.
func commitOf(own, common, ref string, more int) string {
	text, err := projectfile.Read(own, ref, maxRefFile)
	if err != nil && own != common {
		text, err = projectfile.Read(common, ref, maxRefFile)
	}
	if err != nil {
		return packedCommit(common, ref)
	}
	to, symbolic := strings.CutPrefix(string(text), "ref:")
	to = strings.TrimSpace(to)
	switch {
	case !symbolic:
		return wholeCommit(to)
	case more == 0 || !strings.HasPrefix(to, "refs/") || !filepath.IsLocal(filepath.FromSlash(to)):
		return ""
	}
	return commitOf(own, common, to, more-1)
}

func packedCommit(common, ref string) string {
	packed, err := projectfile.Read(common, "packed-refs", maxPackedRefs)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(packed)) {
		if commit, name, _ := strings.Cut(strings.TrimSpace(line), " "); name == ref {
			return wholeCommit(commit)
		}
	}
	return ""
}

// wholeCommit is a text that is the whole name of a commit, or "".
func wholeCommit(text string) string {
	if len(text) >= sha1Digits && isCommit(text) {
		return text
	}
	return ""
}
