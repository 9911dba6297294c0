package sourcetest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/steps/source/tree"
)

// ArchiveServer serves files over HTTP, with ranges and validators, and misbehaves where it is told to.
type ArchiveServer struct {
	*httptest.Server
	mu       sync.Mutex
	files    map[string]served
	requests []*http.Request
	// Intercept, when it is set, answers a request itself and returns true, or leaves it and returns false. N counts the
	// requests from 1. Set it before the first request.
	Intercept func(w http.ResponseWriter, r *http.Request, n int) bool
}

type served struct {
	data []byte
	etag string
	time time.Time
}

// NewArchiveServer starts a server on this machine, with TLS or without. Close it.
func NewArchiveServer(tls bool) *ArchiveServer {
	s := &ArchiveServer{files: map[string]served{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	return s
}

// Put serves data at a path, and returns its URL.
func (s *ArchiveServer) Put(path string, data []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256(data)
	s.files[path] = served{data, `"` + hex.EncodeToString(sum[:8]) + `"`, time.Unix(1_700_000_000, 0)}
	return s.URL + path
}

// Requests returns what was asked for so far.
func (s *ArchiveServer) Requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.requests...)
}

func (s *ArchiveServer) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Clone(r.Context()))
	n := len(s.requests)
	file, ok := s.files[r.URL.Path]
	s.mu.Unlock()
	if s.Intercept != nil && s.Intercept(w, r, n) {
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", file.etag)
	http.ServeContent(w, r, "", file.time, bytes.NewReader(file.data))
}

// BreakOff answers with only the first n bytes of data, of which it has promised all, and closes the connection.
func BreakOff(w http.ResponseWriter, data []byte, n int) {
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	_, _ = w.Write(data[:n])
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	panic(http.ErrAbortHandler)
}

// Zip packs a folder as a zip archive, with links and modes, below a prefix ("" or "folder/").
func Zip(dir, prefix string) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	err := eachFile(dir, func(name string, info fs.FileInfo, link string, content io.Reader) error {
		h := &zip.FileHeader{Name: prefix + name, Method: zip.Deflate}
		h.SetMode(info.Mode())
		f, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		if link != "" {
			content = strings.NewReader(link)
		}
		_, err = io.Copy(f, content)
		return err
	})
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return out.Bytes(), err
}

// Tar packs a folder as a tar archive, below a prefix.
func Tar(dir, prefix string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := eachFile(dir, func(name string, info fs.FileInfo, link string, content io.Reader) error {
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		h.Name = prefix + name
		if err := w.WriteHeader(h); err != nil || link != "" {
			return err
		}
		_, err = io.Copy(w, content)
		return err
	})
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return out.Bytes(), err
}

// Gzip compresses data.
func Gzip(data []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(data)
	_ = z.Close()
	return out.Bytes()
}

func eachFile(dir string, visit func(name string, info fs.FileInfo, link string, content io.Reader) error) error {
	return tree.Walk(dir, func(name string, info fs.FileInfo) error {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(full)
			if err != nil {
				return err
			}
			return visit(name, info, filepath.ToSlash(target), nil)
		}
		f, err := os.Open(full)
		if err != nil {
			return err
		}
		defer f.Close()
		return visit(name, info, "", f)
	})
}
