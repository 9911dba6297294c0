package ssh

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/remotefiles"
)

//go:embed put.sh
var putScript string

// PutScript is the script by which Put keeps copies of programs, for whoever brings one to a machine before there is a Host: what it stores,
// Put finds. Its arguments are described in it; the name of a copy is that of its file without ".exe".
func PutScript() string { return putScript }

// Put copies a program to the user's cache folder on the host: $XDG_CACHE_HOME/rung, ~/.cache/rung, or a folder of the user below the
// one for temporary files if neither can be used.
func (h *Host) Put(ctx context.Context, file string) (string, error) {
	if h.options.Present != "" {
		if known, err := h.options.Program(h.platform); err == nil && known == file {
			return h.options.Present, nil
		}
	}
	in, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer in.Close()
	sum, err := h.sums.of(in)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", file, err)
	}
	name := strings.TrimSuffix(filepath.Base(file), ".exe")
	path, err := h.cache(ctx, nil, "find", sum, name)
	if err == nil && path == "" {
		path, err = h.cache(ctx, in, "store", sum, name)
		if err == nil && path == "" {
			err = errors.New("what arrived there is not what was sent")
		}
	}
	if err != nil {
		return "", fmt.Errorf("copying %s to %s: %w", file, h.name, err)
	}
	return path, nil
}

// cache runs the script; path is empty if it finds no copy.
func (h *Host) cache(ctx context.Context, in io.Reader, mode, sum, name string) (path string, err error) {
	var out, errs bytes.Buffer
	code, err := h.run(ctx, &host.Command{
		Args: []string{"/bin/sh", "-c", putScript, "sh", mode, sum, name}, Stdin: in, Stdout: &out, Stderr: &errs,
	})
	if err != nil {
		return "", err
	}
	if code != 0 {
		said := strings.Join(strings.Split(strings.TrimSpace(errs.String()), "\n"), "; ")
		if strings.Contains(said, "No space left on device") || strings.Contains(said, "Disk quota exceeded") || strings.Contains(said, "file system full") {
			return "", fmt.Errorf("%w: %s", host.ErrNoSpace, said)
		}
		return "", errors.New(said)
	}
	path, _ = strings.CutPrefix(strings.TrimSuffix(out.String(), "\n"), "found ")
	if !strings.HasPrefix(path, "/") {
		return "", nil
	}
	return path, nil
}

// sums are the digests of files that were read, so that a program is not read again for each use.
type sums struct {
	mu    sync.Mutex
	known map[string]digest
}

// digest is that of a file which looked like this.
type digest struct {
	info fs.FileInfo
	sum  string
}

// of returns the SHA-256 of a file, and leaves it at its beginning.
func (s *sums) of(file *os.File) (string, error) {
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is not a program file")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, found := s.known[file.Name()]; found && os.SameFile(k.info, info) && k.info.Size() == info.Size() && k.info.ModTime().Equal(info.ModTime()) {
		return k.sum, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	if s.known == nil {
		s.known = map[string]digest{}
	}
	sum := hex.EncodeToString(h.Sum(nil))
	if time.Since(info.ModTime()) > time.Second { // one that was written just now may change without looking different
		s.known[file.Name()] = digest{info, sum}
	}
	return sum, nil
}

// runFiles runs the program for files on the host, which a server of ours does itself.
func (h *Host) runFiles(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) (int, error) {
	switch {
	case h.options.Connect != nil:
		return h.askFiles(ctx, args, in, out, errs)
	case remotefiles.Brief(args):
		return h.sessions.Run(ctx, args, out, errs)
	}
	p, err := h.startFiles(ctx, args, in, out, errs)
	if err != nil {
		return -1, err
	}
	return p.Wait()
}

// startFiles starts the program for files on the host.
func (h *Host) startFiles(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) (host.Process, error) {
	for try := 0; ; try++ {
		program, err := h.filesProgram(ctx)
		if err != nil {
			return nil, err
		}
		p, err := h.Exec(ctx, &host.Command{Args: append([]string{program, "host"}, args...), Stdin: in, Stdout: out, Stderr: errs})
		var notStarted *host.StartError
		if !errors.As(err, &notStarted) || !errors.Is(err, fs.ErrNotExist) || try > 0 {
			return p, err
		}
		h.putting.Lock() // somebody has removed it
		h.program = ""
		h.putting.Unlock()
	}
}

// filesProgram returns the path of the program for files on the host, and puts it there if need be.
func (h *Host) filesProgram(ctx context.Context) (string, error) {
	h.putting.Lock()
	defer h.putting.Unlock()
	if h.program != "" {
		return h.program, nil
	}
	if h.options.Program == nil {
		return "", fmt.Errorf("the files of %s cannot be used: no step-runner for it was configured", h.name)
	}
	file, err := h.options.Program(h.platform)
	if err != nil {
		return "", fmt.Errorf("finding a step-runner for %s (%s): %w", h.name, h.platform, err)
	}
	h.program, err = h.Put(ctx, file)
	return h.program, err
}
