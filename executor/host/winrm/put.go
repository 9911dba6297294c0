package winrm

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

//go:embed put.ps1
var putScript string

// line is how much of a program is in a line of Base64, in bytes.
const line = 48 << 10

// puts is what was put.
type puts struct {
	mu   sync.Mutex
	done map[file]string // where it is
}

// file is a file of this machine as it was.
type file struct {
	path string
	size int64
	time time.Time
}

// put is what put.ps1 reads.
type put struct {
	Sum, Name string
	Store     bool
}

// Put copies a program to %LOCALAPPDATA%\rung\programs.
func (h *Host) Put(ctx context.Context, path string) (string, error) {
	h.putting.mu.Lock()
	defer h.putting.mu.Unlock()
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a program file", path)
	}
	key := file{path, info.Size(), info.ModTime()}
	if there := h.putting.done[key]; there != "" {
		return there, nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	name := filepath.Base(path)
	if h.platform.OS == "windows" && !strings.EqualFold(filepath.Ext(name), ".exe") {
		name += ".exe"
	}
	p := put{Sum: hex.EncodeToString(sum.Sum(nil)), Name: name}
	there, err := h.kept(ctx, p, nil)
	if err == nil && there == "" {
		if _, err = in.Seek(0, io.SeekStart); err == nil {
			p.Store = true
			there, err = h.kept(ctx, p, in)
		}
		if err == nil && there == "" {
			err = errors.New("what arrived there is not what was sent")
		}
	}
	if err != nil {
		return "", fmt.Errorf("copying %s to %s: %w", path, h.Name(), err)
	}
	if h.putting.done == nil {
		h.putting.done = map[file]string{}
	}
	h.putting.done[key] = there
	return there, nil
}

// kept runs the script; path is empty where there is no copy.
func (h *Host) kept(ctx context.Context, p put, content io.Reader) (path string, err error) {
	header, err := described(p)
	if err != nil {
		return "", err
	}
	var in io.Reader = strings.NewReader(string(header))
	if content != nil {
		in = io.MultiReader(in, &lines{from: content})
	}
	out, errs, code, err := h.script(ctx, powershell(putScript), in)
	if err != nil {
		return "", err
	}
	if code != 0 {
		return "", fmt.Errorf("the script that keeps programs has ended with exit code %d: %s", code, strings.TrimSpace(errs))
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(out))
	return string(text), err
}

// lines is a content in lines of Base64.
type lines struct {
	from io.Reader
	left []byte
}

func (l *lines) Read(p []byte) (int, error) {
	if len(l.left) == 0 {
		part := make([]byte, line)
		n, err := io.ReadFull(l.from, part)
		if n == 0 {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = io.EOF
			}
			return 0, err
		}
		l.left = append([]byte(base64.StdEncoding.EncodeToString(part[:n])), '\n')
	}
	n := copy(p, l.left)
	l.left = l.left[n:]
	return n, nil
}
