// Package joblog keeps the log of a job on disk and brings it to GitLab, with the state of the job.
//
//	ui/joblog.Renderer ──> File ──> Sender ──> GitLab
//	                        │
//	                        '── outlives this process: the next one opens it and goes on
//
// GitLab learns of the log in parts, at the pace that it asks for. What it has already is GitLab's to say, so nothing about it has to be stored.
package joblog

import (
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"sync"
)

// File is the log of one job on disk. One goroutine appends, others read. Its methods are safe for concurrent use.
type File struct {
	mu   sync.Mutex
	file *os.File
	size int64
	sum  hash.Hash32 // of the first summed bytes
	// summed is less than size only after Open, until somebody asks for the checksum.
	summed int64
}

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
	if _, err := f.file.WriteAt(p, f.size); err != nil {
		return fmt.Errorf("writing the job's log: %w", err)
	}
	if f.summed == f.size {
		_, _ = f.sum.Write(p)
		f.summed += int64(len(p))
	}
	f.size += int64(len(p))
	return nil
}

// Size is how many bytes the log has.
func (f *File) Size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.size
}

// Checksum is the CRC-32 (IEEE) of the whole log, in GitLab's form: "crc32:" and eight hexadecimal digits.
func (f *File) Checksum() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rest := io.NewSectionReader(f.file, f.summed, f.size-f.summed)
	n, err := io.Copy(f.sum, rest)
	f.summed += n
	if err == nil && f.summed != f.size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", fmt.Errorf("reading the job's log: %w", err)
	}
	return fmt.Sprintf("crc32:%08x", f.sum.Sum32()), nil
}

// part reads up to limit bytes from offset.
func (f *File) part(offset, limit int64) ([]byte, error) {
	n := min(f.Size()-offset, limit)
	if n <= 0 {
		return nil, nil
	}
	p := make([]byte, n)
	if _, err := f.file.ReadAt(p, offset); err != nil {
		return nil, fmt.Errorf("reading the job's log: %w", err)
	}
	return p, nil
}

// Close closes the file, which stays.
func (f *File) Close() error { return f.file.Close() }
