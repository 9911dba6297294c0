package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rungci/rung/internal/wholefile"
)

// Digest is the digest of this program's file, "sha256:…", or "" when it cannot be read. Computing it takes longer than
// a short run does: main starts it early, and it is remembered in the user's cache folder.
var Digest = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = ""
	}
	return fileDigest(path, cache)
})

// remembered is the digest of a file, and the state of the file that it was computed for.
type remembered struct {
	Path     string    `json:"path"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	Digest   string    `json:"digest"`
}

// fileDigest returns the digest of a file, computed or remembered in the folder cache; "" is none. A cache folder that does not exist is
// not made: a run in a bare environment leaves nothing there.
func fileDigest(path, cache string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	if cache == "" {
		return ComputeDigest(path)
	}
	entry := filepath.Join(cache, "step-runner", "program.json")
	now := remembered{Path: path, Size: info.Size(), Modified: info.ModTime().UTC()}
	if digest := recall(entry, now); digest != "" {
		return digest
	}
	if now.Digest = ComputeDigest(path); now.Digest != "" {
		remember(entry, now)
	}
	return now.Digest
}

func recall(entry string, now remembered) string {
	data, err := os.ReadFile(entry)
	if err != nil {
		return ""
	}
	var known remembered
	if json.Unmarshal(data, &known) != nil {
		return ""
	}
	now.Digest = known.Digest
	if known != now {
		return ""
	}
	return known.Digest
}

func remember(entry string, now remembered) {
	if err := os.Mkdir(filepath.Dir(entry), 0o700); err != nil && !os.IsExist(err) {
		return
	}
	data, err := json.Marshal(now)
	if err != nil {
		return
	}
	_ = wholefile.WriteText(entry, 0o600, data)
}

// ComputeDigest is the digest of a file, "sha256:…", or "" when it cannot be read.
func ComputeDigest(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(h, onlyReader{f}, make([]byte, 256<<10)); err != nil {
		return ""
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// onlyReader hides that a file can write itself, in pieces that are too small.
type onlyReader struct{ io.Reader }
