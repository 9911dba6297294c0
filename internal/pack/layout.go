package pack

import (
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rungci/rung/internal/cleantext"
)

// kind is what an archive makes of a name.
type kind int

const (
	implied kind = iota + 1 // a folder that has no entry of its own
	folder
	file
	link
)

// layout is what an archive holds, by name. It refuses entries that contradict each other, before anything is written.
type layout map[string]kind

// add notes an entry. A folder may stand twice, and before or after what is in it.
func (l layout) add(name string, k kind) error {
	if runtime.GOOS == "windows" && strings.Contains(name, `\`) || !filepath.IsLocal(filepath.FromSlash(name)) {
		return &UnsafeError{name, "this system can have no file of that name in the folder"}
	}
	switch before := l[name]; {
	case before == 0, before == implied && k == folder, before == folder && k == folder:
		l[name] = k
	case before == implied:
		return &UnsafeError{name, "other entries lie in it, so it must be a folder"}
	default:
		return &UnsafeError{name, "the archive holds it twice"}
	}
	for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
		switch l[parent] {
		case 0:
			l[parent] = implied
		case link:
			return &UnsafeError{name, "it lies behind the symbolic link \"" + parent + "\" of the same archive"}
		case file:
			return &UnsafeError{name, "\"" + parent + "\" of the same archive is a file, and not a folder"}
		default:
			return nil // its parents were noted with it
		}
	}
	return nil
}

// InGit reports whether one of the folders of a path with slashes, or the path itself, is one that a file system may take for .git. A backslash
// separates, too, as it does on Windows.
func InGit(name string) bool {
	for segment := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '/' || r == '\\' }) {
		if isGitName(segment) {
			return true
		}
	}
	return false
}

// isGitName compares a name with .git as the most careless file systems do: HFS+ ignores characters that are not seen, NTFS what follows a colon, and
// dots and spaces at the end; it calls .git git~1, too. Upper and lower case are the same to both.
func isGitName(name string) bool {
	name = strings.Map(func(r rune) rune {
		if cleantext.Harmful(r) {
			return -1
		}
		return r
	}, name)
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(name, ". ")
	return strings.EqualFold(name, ".git") || strings.EqualFold(name, "git~1")
}
