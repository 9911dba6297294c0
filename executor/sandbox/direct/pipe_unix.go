//go:build unix

package direct

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// openPause is the time between two attempts to open a pipe that nobody reads yet.
const openPause = time.Millisecond

// pipePrefix begins the names of pipes.
const pipePrefix = "pipe-"

// pipe is a named pipe.
type pipe struct{ path string }

// newPipe makes a pipe that only this user can open.
func newPipe(dir string) (*pipe, error) {
	p := &pipe{filepath.Join(dir, pipePrefix+rand.Text()[:10])}
	return p, makePipe(p.path)
}

func makePipe(path string) error {
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return &os.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	return nil
}

// send writes text to whoever opens the pipe, unless that has ended before, and removes the pipe.
func (p *pipe) send(text []byte, ended <-chan struct{}) error {
	defer p.Close()
	for {
		file, err := os.OpenFile(p.path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			_, err = file.Write(text)
			return errors.Join(err, file.Close())
		}
		if !errors.Is(err, syscall.ENXIO) { // nobody reads yet
			return err
		}
		select {
		case <-ended:
			return nil // how it ended says why
		case <-time.After(openPause):
		}
	}
}

// Close removes the pipe.
func (p *pipe) Close() error {
	if err := os.Remove(p.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing a pipe: %w", err)
	}
	return nil
}

// releasePipes ends the waiting of those who read a pipe of a folder to which nobody will write any more: whoever made it was killed.
func releasePipes(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, pipePrefix+"*"))
	for _, path := range left {
		if file, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			_ = file.Close()
		}
	}
}

// openReading opens a pipe for reading alone: it has an end when nobody writes to it any more.
func openReading(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// openPipe opens a pipe for reading, also when nobody writes to it yet, or any more.
func openPipe(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
}
