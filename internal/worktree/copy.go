package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// batchSize is how many files a worker takes at once, so that small ones are not passed around one by one.
const batchSize = 16

// batch are files of one work tree for a worker.
type batch struct {
	tree  *treeCopy
	names []string
	done  *sync.WaitGroup
}

// treeCopy is one work tree that is being copied.
type treeCopy struct {
	*copying
	from, to, rel string

	mu    sync.Mutex
	inner []string // folders that turned up among the files: submodules
}

// startWorkers starts copying what arrives in c.work. The returned function ends it.
func (c *copying) startWorkers(n int) (stop func()) {
	c.work = make(chan batch, 2*n)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			buf := make([]byte, bufferSize)
			for b := range c.work {
				for _, name := range b.names {
					if c.ctx.Err() != nil {
						break
					}
					if err := b.tree.file(name, buf); err != nil {
						c.fail(err)
					}
				}
				b.done.Done()
			}
		})
	}
	return func() {
		close(c.work)
		all.Wait()
	}
}

// files copies the named files of a work tree, and the work trees among them.
func (c *copying) files(from, to, rel string, depth int, names []string) error {
	t := &treeCopy{copying: c, from: from, to: to, rel: rel}
	var done sync.WaitGroup
	first, folders := 0, map[string]bool{"": true}
	flush := func(end int) {
		if end > first {
			done.Add(1)
			c.work <- batch{t, names[first:end], &done}
		}
		first = end
	}
	var err error
	for i, name := range names {
		if c.ctx.Err() != nil {
			break
		}
		if i-first == batchSize {
			flush(i)
		}
		inner := strings.HasSuffix(name, "/")
		name = strings.TrimSuffix(name, "/")
		if !filepath.IsLocal(filepath.FromSlash(name)) || slices.Contains(strings.Split(name, "/"), ".git") {
			err = fmt.Errorf("%s has a file that is called %q, outside of it", from, name)
			break
		}
		var there bool
		if there, err = t.enter(parent(name), folders); err != nil {
			break
		}
		if !there || t.ours(name) {
			flush(i)
			first = i + 1
			continue
		}
		if inner {
			flush(i)
			first = i + 1
			if there, err = t.enter(name, folders); err != nil {
				break
			}
			if there && isRepository(filepath.Join(from, filepath.FromSlash(name))) {
				t.addInner(name)
			}
		}
	}
	if err == nil && c.ctx.Err() == nil {
		flush(len(names))
	}
	done.Wait()
	if err == nil {
		err = context.Cause(c.ctx)
	}
	for _, name := range t.inner {
		if err == nil {
			err = t.nested(name, depth)
		}
	}
	return err
}

// ours reports whether a name belongs to the copy itself.
func (t *treeCopy) ours(name string) bool {
	full := filepath.Join(t.from, filepath.FromSlash(name))
	return full == t.copying.to || strings.HasPrefix(full, t.copying.to+string(filepath.Separator))
}

// enter makes the folder of a name in the copy, and those above it, and reports whether it is one in the original: it can be gone, or
// a link by now, and then Git takes what was in it for deleted.
func (t *treeCopy) enter(name string, known map[string]bool) (bool, error) {
	if there, ok := known[name]; ok {
		return there, nil
	}
	if t.ours(name) {
		known[name] = false
		return false, nil
	}
	there, err := t.enter(parent(name), known)
	if err != nil {
		return false, err
	}
	if there {
		info, err := os.Lstat(filepath.Join(t.from, filepath.FromSlash(name)))
		if err != nil && !gone(err) {
			return false, err
		}
		if there = err == nil && info.IsDir(); there {
			if err := os.Mkdir(filepath.Join(t.to, filepath.FromSlash(name)), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
				return false, err
			}
		}
	}
	known[name] = there
	return there, nil
}

// path is a file's path in the project.
func (t *treeCopy) path(name string) string {
	if t.rel == "" {
		return name
	}
	return t.rel + "/" + name
}

// nested copies a work tree inside this one.
func (t *treeCopy) nested(name string, depth int) error {
	local := filepath.FromSlash(name)
	path := t.path(name)
	head, err := t.tree(filepath.Join(t.from, local), filepath.Join(t.to, local), path, depth+1)
	if err == nil && head != nil {
		t.note(func(s *Summary) { s.Submodules = append(s.Submodules, path) })
	}
	return err
}

// file copies one file or link, whose folder is there.
func (t *treeCopy) file(name string, buf []byte) error {
	from, to := filepath.Join(t.from, filepath.FromSlash(name)), filepath.Join(t.to, filepath.FromSlash(name))
	info, err := os.Lstat(from)
	if gone(err) {
		return nil // deleted, and Git still knows it; or it was there a moment ago
	}
	if err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		var shared bool
		if shared, err = copyFile(from, to, info, buf, &t.cannotShare); gone(err) {
			return nil
		}
		if err == nil {
			t.note(func(s *Summary) {
				s.Files++
				s.Bytes += info.Size()
				if shared {
					s.Shared++
				}
			})
		}
	case mode&fs.ModeSymlink != 0:
		var target string
		if target, err = os.Readlink(from); gone(err) {
			return nil
		}
		if err != nil {
			break
		}
		if err = os.Symlink(target, to); err == nil {
			t.note(func(s *Summary) { s.Links++ })
		}
	case mode.IsDir():
		return t.submodule(name, to)
	default:
		t.note(func(s *Summary) { s.Skipped = append(s.Skipped, t.path(name)) })
		return nil
	}
	return err
}

// submodule takes a folder that Git lists as a file: a submodule, or one whose files are not there.
func (t *treeCopy) submodule(name, to string) error {
	if err := os.Mkdir(to, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if !t.noSubmodules && isRepository(filepath.Join(t.from, filepath.FromSlash(name))) {
		t.addInner(name)
	}
	return nil
}

func (t *treeCopy) addInner(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inner = append(t.inner, name)
}

func parent(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return ""
}

// bufferSize is how much of a file is read at once where the system does not copy it by itself, in bytes.
const bufferSize = 256 << 10

// permissions are the bits of a mode that a copy has as well. A program that runs as somebody else does so no more.
const permissions = fs.ModePerm

// copyFile copies a regular file with its mode and time, and reports whether they share their blocks. That the file systems cannot do
// that is remembered in cannotShare.
func copyFile(from, to string, info fs.FileInfo, buf []byte, cannotShare *atomic.Bool) (shared bool, err error) {
	if !cannotShare.Load() {
		ok, err := clonePath(from, to, cannotShare)
		if ok || err != nil {
			return ok, err
		}
	}
	in, err := os.OpenFile(from, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return false, err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode()&permissions|0o200)
	if err != nil {
		return false, err
	}
	defer out.Close()
	if info.Size() > 0 {
		if !cannotShare.Load() {
			shared = cloneFile(out, in, cannotShare)
		}
		if !shared {
			err = copyData(out, in, info.Size(), buf)
		}
	}
	if err == nil {
		err = settle(out, info)
	}
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Chtimes(to, info.ModTime(), info.ModTime())
	}
	return shared, err
}

// settle gives a copy the mode of its original where the user's mask, or our own need to write, changed it.
func settle(out *os.File, info fs.FileInfo) error {
	made, err := out.Stat()
	if err != nil || made.Mode()&permissions == info.Mode()&permissions {
		return err
	}
	return out.Chmod(info.Mode() & permissions)
}

// copyData copies small files through memory, which costs the least, and lets the system copy large ones.
func copyData(out, in *os.File, size int64, buf []byte) error {
	if size >= int64(len(buf)) {
		_, err := io.Copy(out, in)
		return err
	}
	for {
		n, err := in.Read(buf)
		if n > 0 {
			if _, err := out.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
