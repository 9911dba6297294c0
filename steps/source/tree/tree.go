// Package tree turns files into one digest, and keeps a set of files in one stream.
//
// The content digest of a tree is the SHA-256 of its manifest: a line "<type> <hash> <path>\n" for every file, in the order
// of the bytes of the paths. Type is f, x for a file that can be executed, or l for a symbolic link. Hash is the SHA-256 of
// the file's content (of a link its target) in hexadecimal, path is relative with slashes. Times, owners, other modes and
// empty folders are not part of it; nor is what Ignored names. So the same files have the same digest whether they come
// from Git, an archive, an image or a local folder.
//
// A Writer packs files as a tar archive of the plainest kind; Extract unpacks one and finds out whether it is what its digest
// says. Neither can be led out of its root, whatever the names.
package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/internal/pack"
)

// Limits of a tree. They hold for everything that is fetched, so that a hostile archive cannot fill a disk.
const (
	MaxFiles    = 100_000
	MaxSize     = 2 << 30 // of all files together, in bytes
	MaxPath     = 1024    // of one path, in bytes
	MaxDepth    = 64      // folders in one path
	MaxLinkSize = 1024    // of a link's target, in bytes
)

// Type is what a file is.
type Type byte

// The types of files.
const (
	Regular    Type = 'f'
	Executable Type = 'x'
	Symlink    Type = 'l'
)

// SignatureFile is the name of the files that hold the signatures over the folder that they are in. They are not part of a content digest,
// which they are about, and so nobody who is given a tree is given them: see Signatures.
const SignatureFile = "component.dsse"

// Ignored reports whether a path is not part of a tree's content: what Git keeps of a work tree, and signatures.
func Ignored(name string) bool {
	for element := range strings.SplitSeq(name, "/") {
		if element == ".git" {
			return true
		}
	}
	return path.Base(name) == SignatureFile
}

// PathError says that a name cannot be the path of a file in a tree.
type PathError struct {
	Path string
	Why  string
}

func (e *PathError) Error() string { return fmt.Sprintf("the file name %q %s", e.Path, e.Why) }

// ErrLimit is what errors about limits wrap.
var ErrLimit = errors.New("larger than what a component may be")

// CheckPath refuses names that lead out of the tree or that some system could read differently.
func CheckPath(name string) error {
	switch {
	case name == "":
		return &PathError{name, "is empty"}
	case len(name) > MaxPath:
		return &PathError{strings.ToValidUTF8(name[:40], "") + "…", fmt.Sprintf("is longer than %d bytes", MaxPath)}
	case strings.HasPrefix(name, "/"):
		return &PathError{name, "is absolute"}
	case !utf8.ValidString(name):
		return &PathError{name, "is not UTF-8"}
	case strings.ContainsAny(name, "\\\x00\n\r"):
		return &PathError{name, "has a character that not every system can have in a name"}
	case len(name) > 1 && name[1] == ':':
		return &PathError{name, "begins with a drive"}
	case strings.Count(name, "/") >= MaxDepth:
		return &PathError{name, fmt.Sprintf("is more than %d folders deep", MaxDepth)}
	}
	for element := range strings.SplitSeq(name, "/") {
		switch element {
		case "":
			return &PathError{name, "has an empty element"}
		case ".", "..":
			return &PathError{name, "has the element " + element}
		}
	}
	if pack.InGit(name) {
		return &PathError{name, "is in a .git folder, or in what some system takes for one"}
	}
	return nil
}

// checkLink refuses a link that leads out of the tree.
func checkLink(name, target string) error {
	if target == "" || len(target) > MaxLinkSize || path.IsAbs(target) || strings.ContainsAny(target, "\\\x00\n") || len(target) > 1 && target[1] == ':' {
		return &PathError{name, fmt.Sprintf("is a link to %q, which is not a relative path", target)}
	}
	// A link is in a folder, never below another link, so that what it climbs at its beginning can be counted. After a name
	// that cannot be done: the name may be a link, and from where that leads ".." is somewhere else.
	depth, down := strings.Count(name, "/"), false
	for element := range strings.SplitSeq(target, "/") {
		switch element {
		case "..":
			depth--
		case "", ".":
			continue
		default:
			down = true
			continue
		}
		if down {
			return &PathError{name, fmt.Sprintf("is a link to %q, which may lead outside of the tree: .. can only be at its beginning", target)}
		}
		if depth < 0 {
			return &PathError{name, fmt.Sprintf("is a link to %q, outside of the tree", target)}
		}
	}
	return nil
}

// Manifest is the list of the files in a tree, from which its content digest is made. It is safe for concurrent use.
type Manifest struct {
	lines []line // sorted by path once the tree is complete
}

type line struct {
	path string
	typ  Type
	sum  [sha256.Size]byte
}

// add notes a file.
func (m *Manifest) add(name string, typ Type, sum [sha256.Size]byte) {
	m.lines = append(m.lines, line{name, typ, sum})
}

// Digest returns the content digest, "sha256:" and hexadecimal digits, of the files below the folder ("" is the root), of
// which the paths are then relative to it.
func (m *Manifest) Digest(folder string) string {
	h := sha256.New()
	_, _ = m.write(h, folder)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Len returns the number of files below the folder.
func (m *Manifest) Len(folder string) int {
	n, _ := m.write(io.Discard, folder)
	return n
}

func (m *Manifest) sort() {
	slices.SortFunc(m.lines, func(a, b line) int { return strings.Compare(a.path, b.path) })
}

func (m *Manifest) write(w io.Writer, folder string) (n int, err error) {
	prefix := ""
	if folder != "" {
		prefix = folder + "/"
	}
	for _, l := range m.lines {
		name, inside := strings.CutPrefix(l.path, prefix)
		if !inside || Ignored(name) {
			continue
		}
		n++
		if _, err = fmt.Fprintf(w, "%c %x %s\n", l.typ, l.sum, name); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Has reports whether there is a file or link with this path.
func (m *Manifest) Has(name string) bool {
	_, found := slices.BinarySearchFunc(m.lines, name, func(l line, name string) int { return strings.Compare(l.path, name) })
	return found
}

// Paths returns the paths of all files, sorted.
func (m *Manifest) Paths() []string {
	paths := make([]string, len(m.lines))
	for i := range m.lines {
		paths[i] = m.lines[i].path
	}
	return paths
}

// FileDigest returns the content digest of a tree that holds one plain file.
func FileDigest(name string, content []byte) string {
	m := Manifest{lines: []line{{name, Regular, sha256.Sum256(content)}}}
	return m.Digest("")
}
