package pack

import (
	"io/fs"
	"path"
	"strings"
	"time"
)

// Kind is what an entry of an archive is.
type Kind int

// The kinds of entries.
const (
	KindFile Kind = iota + 1
	KindFolder
	KindSymlink
	KindHardLink
	KindSpecial // a pipe, a socket, a device, or of an unknown type
)

// Entry is what an archive holds under one name. Its name cannot lead out of a root, on any system that knows "/" and "..".
type Entry struct {
	Name     string // with slashes, without "./" at its start and slashes at its end; "." is the root
	Kind     Kind
	Mode     fs.FileMode
	Modified time.Time // zero if the archive has no time
	Size     int64     // of a file, with the holes of a sparse one
	// Target is what a symbolic link says. Nothing checks it: whoever writes the link decides where it may lead. Of a hard link it is the
	// checked name of another entry. It is empty for the links of zip archives: see ZipEntry.ReadTarget.
	Target string
	// UID and GID are the owner's numbers in a tar archive. Nothing but the root of a machine can keep them.
	UID, GID int
}

// Budget is what archives may hold together, and what has been read of them.
type Budget struct {
	MaxBytes   int64 // of all files, with the holes of sparse ones
	MaxEntries int
	MaxStream  int64 // of uncompressed tar archives, with headers and padding; 0 is derived from the other two

	bytes   int64
	entries int
	stream  int64
}

// headerRoom is how many bytes of a tar stream an entry may need besides its content, on average: headers, long names and padding.
const headerRoom = 16 << 10

func (b *Budget) maxStream() int64 {
	if b.MaxStream > 0 {
		return b.MaxStream
	}
	return b.MaxBytes + headerRoom*(int64(b.MaxEntries)+1)
}

// take counts an entry.
func (b *Budget) take(e *Entry) error {
	if b.entries++; b.entries > b.MaxEntries {
		return &LimitError{"entries", int64(b.MaxEntries)}
	}
	if e.Size < 0 || e.Size > b.MaxBytes-b.bytes {
		return &LimitError{"bytes", b.MaxBytes}
	}
	b.bytes += e.Size
	return nil
}

// cleanName checks a name from an archive, and takes off what does not matter: "./" at its start and slashes at its end. The result is "."
// for the root itself.
func cleanName(written string) (string, error) {
	switch {
	case written == "":
		return "", &UnsafeError{written, "its name is empty"}
	case strings.ContainsRune(written, 0):
		return "", &UnsafeError{written, "its name holds a zero byte"}
	case strings.HasPrefix(written, "/"):
		return "", &UnsafeError{written, "its name is an absolute path, which may lead out of the folder"}
	}
	for segment := range strings.SplitSeq(written, "/") {
		if segment == ".." {
			return "", &UnsafeError{written, `its name leads out of a folder by ".."`}
		}
	}
	return path.Clean(written), nil
}
