// Package joblog keeps the log of a job on disk and brings it to GitLab, with the state of the job.
//
//	ui/joblog.Renderer ──> File ──> Sender ──> GitLab
//	                        │
//	                        '── outlives this process: the next one opens it and goes on
//
// GitLab learns of the log in parts, at the pace that it asks for. What it has already is GitLab's to say, so nothing about it has to be stored.
package joblog

import (
	"bytes"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"sync"
)

// maxLast is how many bytes of a log there can be in memory.
const maxLast = 64 << 10

// File is the log of one job on disk. One goroutine appends, others read. Its methods are safe for concurrent use.
type File struct {
	mu   sync.Mutex
	file *os.File // nil: there is none
	size int64    // of the file
	last []byte   // what follows it, in memory
	sum  hash.Hash32
	// summed is how many bytes sum is of: all of them but after Open, until somebody asks for the checksum.
	summed  int64
	brought *Rest // what it began with, in place of its beginning; nil: it is whole
}

// InMemory begins the log of a job that can have no file. It takes 64 KiB, and is gone with this process.
func InMemory() *File { return &File{sum: crc32.NewIEEE()} }

// Open opens the log at path, or begins one. What is in it stays. Only the user of this process can read it.
func Open(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{file: f, size: info.Size(), sum: crc32.NewIEEE()}, nil
}

// Append adds p. When it fails, nothing of p counts.
func (f *File) Append(p []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil || len(f.last) > 0 {
		if len(p) > maxLast-len(f.last) {
			return fmt.Errorf("the job's log has no file, and takes no more than %d bytes", maxLast)
		}
		f.keep(p)
		return nil
	}
	if _, err := f.file.WriteAt(p, f.size); err != nil {
		return fmt.Errorf("writing the job's log: %w", err)
	}
	f.added(p)
	f.size += int64(len(p))
	return nil
}

// Last adds the last words of a log that finds no room on disk: they are in memory, up to 64 KiB of them, and gone with this process.
func (f *File) Last(p []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep(p[:min(len(p), maxLast-len(f.last))])
}

// keep adds p in memory. The caller holds the lock.
func (f *File) keep(p []byte) {
	f.added(p)
	f.last = append(f.last, p...)
}

// added takes p into the checksum, if that is of all before it. The caller holds the lock.
func (f *File) added(p []byte) {
	if f.summed == f.length() {
		_, _ = f.sum.Write(p)
		f.summed += int64(len(p))
	}
}

// length is how many bytes there are. The caller holds the lock.
func (f *File) length() int64 { return f.size + int64(len(f.last)) }

// Size is how many bytes the log has.
func (f *File) Size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.length()
}

// Checksum is the CRC-32 (IEEE) of the whole log, in GitLab's form: "crc32:" and eight hexadecimal digits.
func (f *File) Checksum() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := io.Copy(f.sum, io.NewSectionReader(f.contents(), f.summed, f.length()-f.summed))
	f.summed += n
	if err == nil && f.summed != f.length() {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", fmt.Errorf("reading the job's log: %w", err)
	}
	return fmt.Sprintf("crc32:%08x", f.sum.Sum32()), nil
}

// part is what there is from offset on, up to limit bytes.
func (f *File) part(offset, limit int64) *io.SectionReader {
	f.mu.Lock()
	defer f.mu.Unlock()
	return io.NewSectionReader(f.contents(), offset, max(0, min(f.length()-offset, limit)))
}

// contents are those of now. The caller holds the lock.
func (f *File) contents() contents { return contents{f.file, f.size, f.last} }

// Close closes the file, which stays.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// contents reads a file and what follows it in memory.
type contents struct {
	file *os.File
	size int64
	last []byte
}

// ReadAt implements io.ReaderAt.
func (c contents) ReadAt(p []byte, from int64) (n int, err error) {
	if here := c.size - from; here > 0 {
		n, err = c.file.ReadAt(p[:min(int64(len(p)), here)], from)
		if err != nil || n == len(p) {
			return n, err
		}
	}
	more, err := bytes.NewReader(c.last).ReadAt(p[n:], from+int64(n)-c.size)
	return n + more, err
}
