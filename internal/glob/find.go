package glob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Request says which files of a project are wanted.
type Request struct {
	// Dir is the project's folder, as a whole path. Nothing outside of it is found, on no way.
	Dir string
	// Paths are patterns of what is wanted, relative to Dir or whole. A folder stands for all that is below it.
	Paths []string
	// Exclude are patterns of what is left out. They do not work downwards: "build" leaves out the folder's own entry, and
	// "build/**" what is in it.
	Exclude []string
	// Untracked are further files, relative to Dir: those that Git does not know, where they are wanted.
	Untracked []string
}

// Entry is a file, a folder, a symbolic link or something else that the project's folder holds.
type Entry struct {
	Path string      // relative to the project's folder, with slashes on every system
	Info fs.FileInfo // of the entry itself, not of what a link leads to
}

// Result is what was found.
type Result struct {
	Entries  []Entry        // each path once, in the order of their bytes; a folder is before what is in it
	Found    map[string]int // how many entries each of Request.Paths found that were not excluded
	Excluded map[string]int // how many entries each of Request.Exclude left out
	Warnings []Warning      // in the order in which they came up, each once
}

// Find returns what the patterns of a request stand for. Patterns that find nothing, or that make no sense, are warnings, and never
// an error: a job does not fail because an artifact is missing. The error is about the project's folder itself, or ctx's.
func Find(ctx context.Context, r Request) (*Result, error) {
	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		return nil, fmt.Errorf("opening the project's folder: %w", err)
	}
	defer root.Close()
	f := &finder{
		ctx: ctx, root: root, base: newBase(r.Dir), entries: map[string]fs.FileInfo{}, folders: map[string][]fs.FileInfo{},
		left:   map[string]bool{},
		result: &Result{Found: map[string]int{}, Excluded: map[string]int{}},
	}
	f.prepareExcludes(r.Exclude)
	for _, p := range r.Paths {
		f.findPattern(p)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	for _, file := range r.Untracked {
		f.findUntracked(file)
	}
	return f.finish(), nil
}

// finder collects what the patterns of one request find.
type finder struct {
	ctx      context.Context
	root     *os.Root
	base     base
	excludes []exclude
	entries  map[string]fs.FileInfo
	folders  map[string][]fs.FileInfo // what folders hold, read once for all patterns
	left     map[string]bool          // what was excluded, so that it counts once
	result   *Result
}

// exclude is a pattern of what is left out: as it is written, and relative to the project.
type exclude struct{ written, pattern string }

func (f *finder) warn(w Warning) {
	if !slices.ContainsFunc(f.result.Warnings, func(o Warning) bool { return o.Reason == w.Reason && o.Subject == w.Subject }) {
		f.result.Warnings = append(f.result.Warnings, w)
	}
}

func (f *finder) prepareExcludes(patterns []string) {
	for _, p := range patterns {
		if relative, ok := f.relative(p); ok {
			f.excludes = append(f.excludes, exclude{p, relative})
		}
	}
}

// relative returns a pattern relative to the project, or says why there is none.
func (f *finder) relative(pattern string) (string, bool) {
	relative, err := f.base.relative(pattern)
	if err != nil {
		reason := Malformed
		if errors.Is(err, errOutside) {
			reason = Outside
		}
		f.warn(Warning{Reason: reason, Subject: pattern, Err: err})
		return "", false
	}
	return relative, true
}

func (f *finder) findPattern(written string) {
	pattern, ok := f.relative(written)
	if !ok {
		return
	}
	found := 0
	if literal, rest := doublestar.SplitPattern(pattern); !hasMeta(rest) {
		name := path.Join(literal, unescape(rest))
		if info, err := f.lstat(name); err == nil {
			found = f.take(name, info)
		}
	} else {
		found = f.search(literal, pattern)
	}
	f.result.Found[written] += found
	if found == 0 {
		f.warn(Warning{Reason: NoMatch, Subject: written})
	}
}

// search takes what matches below a folder, and returns how much that is.
func (f *finder) search(folder, pattern string) (found int) {
	if matches(pattern, folder) {
		if info, err := f.lstat(folder); err == nil && info.IsDir() {
			return f.take(folder, info)
		}
	}
	depth := maxDepth(pattern)
	var descend func(folder string, level int)
	descend = func(folder string, level int) {
		for _, info := range f.list(folder) {
			name := path.Join(folder, info.Name())
			switch {
			case matches(pattern, name):
				found += f.take(name, info)
			case info.IsDir() && (depth == 0 || level < depth):
				descend(name, level+1)
			}
		}
	}
	level := 1
	if folder != "." {
		level += strings.Count(folder, "/") + 1
	}
	descend(folder, level)
	return found
}

// take adds an entry, and all that is below it when it is a folder. It returns how much of that is not excluded.
func (f *finder) take(name string, info fs.FileInfo) (found int) {
	if name != "." && f.add(name, info) {
		found++
	}
	if info.IsDir() {
		for _, child := range f.list(name) {
			found += f.take(path.Join(name, child.Name()), child)
		}
	}
	return found
}

// add adds one entry, unless it is excluded.
func (f *finder) add(name string, info fs.FileInfo) bool {
	for _, e := range f.excludes {
		if matches(e.pattern, name) {
			if !f.left[name] {
				f.left[name] = true
				f.result.Excluded[e.written]++
			}
			return false
		}
	}
	if InGit(name) {
		f.warn(Warning{Reason: Git})
	}
	f.entries[name] = info
	return true
}

func (f *finder) findUntracked(file string) {
	name := filepath.ToSlash(file)
	if !filepath.IsLocal(file) {
		f.warn(Warning{Reason: Outside, Subject: file, Err: errOutside})
		return
	}
	name = path.Clean(name)
	if info, err := f.lstat(name); err == nil { // it may be gone since Git named it
		f.add(name, info)
	}
}

// lstat looks at an entry. A folder of its path may be a symbolic link, as long as that stays in the project.
func (f *finder) lstat(name string) (fs.FileInfo, error) {
	info, err := f.root.Lstat(filepath.FromSlash(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.warn(Warning{Reason: Unreadable, Subject: name, Err: err})
	}
	return info, err
}

// list returns what a folder holds, in the order of names.
func (f *finder) list(folder string) []fs.FileInfo {
	if infos, known := f.folders[folder]; known {
		return infos
	}
	f.folders[folder] = nil
	if f.ctx.Err() != nil {
		return nil
	}
	dir, err := f.root.Open(filepath.FromSlash(folder))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			f.warn(Warning{Reason: Unreadable, Subject: folder, Err: err})
		}
		return nil
	}
	defer dir.Close()
	infos, err := dir.Readdir(-1)
	if err != nil && !notFolder(err) {
		f.warn(Warning{Reason: Unreadable, Subject: folder, Err: err})
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return cmp.Compare(a.Name(), b.Name()) })
	f.folders[folder] = infos
	return infos
}

// finish puts the entries into order. What lies behind a link that is itself an entry is left out: an archive that held both
// could not be unpacked.
func (f *finder) finish() *Result {
	for _, name := range slices.Sorted(maps.Keys(f.entries)) {
		if link := f.linkAbove(name); link != "" {
			f.warn(Warning{Reason: BehindLink, Subject: link})
			continue
		}
		f.result.Entries = append(f.result.Entries, Entry{name, f.entries[name]})
	}
	return f.result
}

// linkAbove returns the entry that is a symbolic link and leads to this one; "" when there is none.
func (f *finder) linkAbove(name string) string {
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		if info := f.entries[name[:i]]; info != nil && info.Mode()&fs.ModeSymlink != 0 {
			return name[:i]
		}
	}
	return ""
}

// notFolder tells a file that was listed as if it were a folder: the pattern finds nothing in it.
func notFolder(err error) bool {
	var perr *fs.PathError
	return errors.As(err, &perr) && strings.Contains(perr.Err.Error(), "not a directory")
}
