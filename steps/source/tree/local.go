package tree

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
)

// Digest returns the content digest of a folder on disk.
func Digest(dir string) (string, error) {
	m, err := Scan(dir)
	if err != nil {
		return "", err
	}
	return m.Digest(""), nil
}

// Scan reads a folder on disk. What is neither a file, a folder nor a link is an error, and so is a tree beyond the limits.
func Scan(dir string) (*Manifest, error) {
	m := &Manifest{}
	err := Walk(dir, func(name string, info fs.FileInfo) error {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(full)
			if err != nil {
				return err
			}
			m.add(name, Symlink, sha256.Sum256([]byte(filepath.ToSlash(target))))
			return nil
		}
		sum, err := sumFile(full)
		if err != nil {
			return err
		}
		m.add(name, typeOf(info), sum)
		return nil
	})
	m.sort()
	return m, err
}

// ScanExact is Scan of a folder that Extract made: something in it that is not part of its content, which Extract leaves out, is an error.
func ScanExact(dir string) (*Manifest, error) {
	if err := filepath.WalkDir(dir, func(full string, _ fs.DirEntry, err error) error {
		if rel, rerr := filepath.Rel(dir, full); err == nil && rerr == nil && Ignored(filepath.ToSlash(rel)) {
			return fmt.Errorf("%s is not part of the package", full)
		}
		return err
	}); err != nil {
		return nil, err
	}
	return Scan(dir)
}

// Walk calls visit with every file and link in dir that is part of its content, names relative to it with slashes.
func Walk(dir string, visit func(name string, info fs.FileInfo) error) error {
	var files int
	var size int64
	return filepath.WalkDir(dir, func(full string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if full == dir {
			if !entry.IsDir() {
				return fmt.Errorf("%s is not a folder", dir)
			}
			return nil
		}
		rel, err := filepath.Rel(dir, full)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		switch {
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case entry.IsDir(), Ignored(name):
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if mode := info.Mode().Type(); mode != 0 && mode != fs.ModeSymlink {
			return fmt.Errorf("%s is neither a file nor a folder, and cannot be part of a component", full)
		}
		files++
		size += info.Size()
		if files > MaxFiles || size > MaxSize {
			return tooLarge(files, size)
		}
		return visit(name, info)
	})
}

func tooLarge(files int, size int64) error {
	if files > MaxFiles {
		return fmt.Errorf("%w: more than %d files", ErrLimit, MaxFiles)
	}
	return fmt.Errorf("%w: %d MiB, and %d MiB is the limit", ErrLimit, size>>20, MaxSize>>20)
}

// typeOf says whether a file can be executed. On Windows nothing tells.
func typeOf(info fs.FileInfo) Type {
	if info.Mode()&0o111 != 0 && runtime.GOOS != "windows" {
		return Executable
	}
	return Regular
}

var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

func sumFile(name string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	for {
		n, rerr := f.Read(buf[:])
		h.Write(buf[:n])
		if errors.Is(rerr, io.EOF) {
			h.Sum(sum[:0])
			return sum, nil
		}
		if rerr != nil {
			return sum, rerr
		}
	}
}

// Protect takes the right to write away from everything in a folder.
func Protect(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() &^ 0o222
		if entry.IsDir() {
			mode = 0o555
		}
		return os.Chmod(path, mode)
	})
}
