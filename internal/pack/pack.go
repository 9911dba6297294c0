// Package pack creates and extracts the archives of artifacts and caches, and reads all archives that come from elsewhere.
//
// Archives are made of a list of names below one folder, in the order of their bytes, whatever the number of workers: the same files
// give the same archive. They hold files, folders and symbolic links, the latter as links. Pipes, sockets and devices are left out with a
// warning, and so are names that do not exist. Names are bytes; those that are not UTF-8 are kept as they are.
//
// Unpacking never writes outside of its folder, nor through a symbolic link, and has limits; see [Extract].
package pack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Level is how much time compression may take.
type Level int

// The levels. The zero value is LevelDefault.
const (
	LevelDefault Level = iota
	LevelFastest       // no compression, where the format has that
	LevelFast
	LevelSlow
	LevelSlowest
)

var levelNames = []string{LevelDefault: "default", LevelFastest: "fastest", LevelFast: "fast", LevelSlow: "slow", LevelSlowest: "slowest"}

// ParseLevel reads the name of a level, as ARTIFACT_COMPRESSION_LEVEL and CACHE_COMPRESSION_LEVEL hold it. "" is the default.
func ParseLevel(name string) (Level, error) {
	if name == "" {
		return LevelDefault, nil
	}
	if i := slices.Index(levelNames, strings.ToLower(name)); i >= 0 {
		return Level(i), nil
	}
	return LevelDefault, fmt.Errorf("unknown compression level %q; there are fastest, fast, default, slow and slowest", name)
}

func (l Level) String() string {
	if l < 0 || int(l) >= len(levelNames) {
		return fmt.Sprintf("level %d", int(l))
	}
	return levelNames[l]
}

// Options say how an archive is made. The zero value is the usual way.
type Options struct {
	Level Level
	// Workers is how many files, or pieces of large ones, are compressed at a time; 0 is one for each core.
	Workers int
	// Owners writes who owns the entries into zip archives, where the system has users with numbers.
	Owners bool
	// Readable leaves out, with a warning, what this user may not read; else it is an error.
	Readable bool
}

func (o Options) workers() int {
	if o.Workers > 0 {
		return o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// Reason is what a warning is about.
type Reason int

// The reasons of warnings.
const (
	Missing    Reason = iota + 1 // the file is not there
	Special                      // a pipe, a socket or a device
	Git                          // see ExtractOptions.NoGit
	Unreadable                   // see Options.Readable
)

// Warning names an entry that was left out.
type Warning struct {
	Reason Reason
	Name   string
	Mode   fs.FileMode // of what is special
}

// String says it in a sentence without a stop.
func (w Warning) String() string {
	switch w.Reason {
	case Missing:
		return fmt.Sprintf("%q is left out: there is no such file", w.Name)
	case Unreadable:
		return fmt.Sprintf("%q is left out: the job's user may not read it", w.Name)
	case Git:
		return fmt.Sprintf("%q is left out: an archive may not change what is in .git, which decides what git runs", w.Name)
	}
	return fmt.Sprintf("%q is left out: it is %s, and an archive holds files, folders and symbolic links", w.Name, kindName(w.Mode))
}

func kindName(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "no regular file"
}

// Summary is what an archive holds.
type Summary struct {
	Entries  int
	Bytes    int64 // of the files, uncompressed
	Warnings []Warning
}

// source reads the entries of a folder, in the order of their names.
type source struct {
	ctx     context.Context
	root    *os.Root
	names   []string
	next    int
	folder  *os.Root // that of the latest entry, so that not every one is looked up from the root
	at      string
	summary *Summary
	// readable is Options.Readable.
	readable bool
}

// item is an entry of a folder.
type item struct {
	name   string // with slashes
	info   fs.FileInfo
	target string   // of a symbolic link
	file   *os.File // of a regular file; whoever takes the item closes it
}

// newSource checks the names and puts them into order.
func newSource(ctx context.Context, dir string, names []string) (*source, error) {
	clean := make([]string, 0, len(names))
	for _, n := range names {
		if n == "" || !filepath.IsLocal(filepath.FromSlash(n)) {
			return nil, fmt.Errorf("%q is outside of the folder that is packed", n)
		}
		if n = path.Clean(filepath.ToSlash(n)); n != "." {
			clean = append(clean, n)
		}
	}
	slices.Sort(clean)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder that is packed: %w", err)
	}
	return &source{ctx: ctx, root: root, names: slices.Compact(clean), summary: &Summary{}}, nil
}

func (s *source) close() {
	if s.folder != nil {
		_ = s.folder.Close()
	}
	_ = s.root.Close()
}

// read returns the next entry, or nil behind the last. What cannot be in an archive, and what is not there, is passed over with a
// warning.
func (s *source) read() (*item, error) {
	for s.next < len(s.names) {
		if s.ctx.Err() != nil {
			return nil, context.Cause(s.ctx)
		}
		name := s.names[s.next]
		s.next++
		it, err := s.open(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			s.summary.Warnings = append(s.summary.Warnings, Warning{Reason: Missing, Name: name})
		case s.readable && errors.Is(err, fs.ErrPermission):
			s.summary.Warnings = append(s.summary.Warnings, Warning{Reason: Unreadable, Name: name})
		case errors.Is(err, fs.ErrPermission):
			return nil, fmt.Errorf("packing %q: %w; let the job's user read it, or exclude it", name, err)
		case err != nil:
			return nil, fmt.Errorf("packing %q: %w", name, err)
		case it.file == nil && it.info.Mode().Type()&^(fs.ModeDir|fs.ModeSymlink) != 0:
			s.summary.Warnings = append(s.summary.Warnings, Warning{Reason: Special, Name: name, Mode: it.info.Mode()})
		default:
			s.summary.Entries++
			return it, nil
		}
	}
	return nil, nil
}

// open looks at an entry, and opens it when it is a file.
func (s *source) open(name string) (*item, error) {
	dir, base := path.Split(name)
	if s.folder == nil || s.at != dir {
		folder, err := s.root.OpenRoot(filepath.FromSlash(cmp.Or(dir, ".")))
		if err != nil {
			return nil, err
		}
		if s.folder != nil {
			_ = s.folder.Close()
		}
		s.folder, s.at = folder, dir
	}
	info, err := s.folder.Lstat(base)
	if err != nil {
		return nil, err
	}
	it := &item{name: name, info: info}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		it.target, err = s.folder.Readlink(base)
		return it, err
	case !info.Mode().IsRegular():
		return it, nil
	}
	if it.file, err = s.folder.Open(base); err != nil {
		return nil, err
	}
	return it, nil
}

// content returns a file's bytes, as many as it had when it was looked at: a log that still grows has an end.
func (i *item) content() io.Reader { return io.LimitReader(i.file, i.info.Size()) }
