package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
)

// What an archive may hold when nothing else is said.
const (
	// DefaultMaxBytes bounds all files of an archive together, uncompressed.
	DefaultMaxBytes = 64 << 30
	// DefaultMaxEntries bounds the number of entries.
	DefaultMaxEntries = 2_000_000
	// maxTarget bounds the target of a symbolic link, in bytes.
	maxTarget = 4096
	// maxWindow bounds the memory that a compressed stream can ask for, in bytes.
	maxWindow = 128 << 20
)

// ExtractOptions say how an archive is unpacked. The zero value is the usual way.
type ExtractOptions struct {
	MaxBytes   int64 // of all files together; 0 is DefaultMaxBytes
	MaxEntries int   // 0 is DefaultMaxEntries
	Workers    int   // how many files are written at a time, where the format allows it; 0 is one for each core
	// Replace unpacks as a container engine does: what is in the way of an entry is removed, full folders and links to folders included, and
	// another name for a symbolic link is another such link.
	Replace bool
	// NoGit leaves out what is named .git, or lies in a folder of that name, at any depth and however a file system may fold the name: with a hook or
	// a setting in it, an archive would decide what git runs.
	NoGit bool
	// Each is called with every entry of a tar archive before it is written, if it is not nil. It may change the mode and time, refuse the
	// entry, and leave it out; tee, if it is not nil, gets the content in either case.
	Each func(e *Entry) (tee io.Writer, write bool, err error)
}

func (o ExtractOptions) budget() *Budget {
	return &Budget{MaxBytes: o.MaxBytes, MaxEntries: o.MaxEntries}
}

func (o ExtractOptions) withDefaults() ExtractOptions {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxEntries == 0 {
		o.MaxEntries = DefaultMaxEntries
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	return o
}

// FormatError says that an archive is damaged, cut short, of an unknown kind, or none at all.
type FormatError struct {
	Entry string // "" when it is about the whole
	Why   string
	Err   error // may be nil
}

func (e *FormatError) Error() string {
	text := "the archive cannot be read: " + e.Why
	if e.Entry != "" {
		text = fmt.Sprintf("the archive cannot be read at its entry %q: %s", e.Entry, e.Why)
	}
	if e.Err != nil {
		text += fmt.Sprintf(" (%v)", e.Err)
	}
	return text
}

// Unwrap returns what went wrong.
func (e *FormatError) Unwrap() error { return e.Err }

// UnsafeError says that unpacking an entry would touch what it must not.
type UnsafeError struct{ Entry, Why string }

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("the archive is refused because of its entry %q: %s", e.Entry, e.Why)
}

// LimitError says that an archive holds more than it may.
type LimitError struct {
	What  string // "bytes" or "entries"
	Limit int64
}

// Refused reports whether an error is about what an archive holds, and not about this machine.
func Refused(err error) bool {
	var format *FormatError
	var unsafe *UnsafeError
	var limit *LimitError
	return errors.As(err, &format) || errors.As(err, &unsafe) || errors.As(err, &limit)
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the archive holds more than %d %s, which is the limit", e.Limit, e.What)
}

// Extract unpacks an archive of any format into a folder, which must be there. What an entry replaces is removed first, so that nothing
// is written through links of either kind. Permissions, symbolic links and times of files and folders are restored; owners, and
// the bits that make programs run as somebody else, are not. Symbolic links are made at the end, whatever they lead to, and nothing is
// ever written through one, be it the archive's or one that was there.
//
// Refused are names that leave the folder, names that stand twice or that lie behind a file or link of the archive, and archives over the
// limits. The entries of a zip archive are checked before anything is written, and so is that it is whole. Of a tar archive, which comes as
// a stream, the files before a mistake are there when it is found. The file at which unpacking stops, for whatever reason, is
// removed, so that every file that is there is whole.
func Extract(ctx context.Context, archive io.ReaderAt, size int64, dir string, o ExtractOptions) (*Summary, error) {
	format, err := Detect(archive)
	if err != nil {
		return nil, err
	}
	if format == FormatZip {
		return ExtractZip(ctx, archive, size, dir, o)
	}
	plain, closer, err := Decompress(io.NewSectionReader(archive, 0, size), o.withDefaults().Workers)
	if err != nil {
		return nil, err
	}
	defer closer()
	return ExtractTar(ctx, plain, dir, o)
}
