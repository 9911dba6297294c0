package cachekey

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"
)

// Location says where the caches of a project are kept: in an object store, or below a folder.
type Location struct {
	Path    string // is before all else; may be ""
	Runner  string // the runner's short token
	Shared  bool   // whether all runners share their caches; else each has its own
	Project string // the project's ID
}

// ErrOutside says that a key leads to the cache of another project.
var ErrOutside = errors.New("it leads out of the project's own caches; take \"../\" out of it")

// Object returns the name of the object that holds the cache of a key. The key should be clean, or a hash; any other is
// taken as a path, and the error is ErrOutside when that leads elsewhere.
func (l Location) Object(key string) (string, error) {
	if key == "" {
		return "", fmt.Errorf("naming the cache: %w", ErrEmpty)
	}
	base := path.Join(l.Path, l.namespace(), "project", l.Project)
	name := path.Join(base, key)
	if !strings.HasPrefix(name, base+"/") {
		return "", fmt.Errorf("the cache key %q cannot be used: %w", key, ErrOutside)
	}
	return name, nil
}

func (l Location) namespace() string {
	if l.Shared {
		return ""
	}
	return path.Join("runner", l.Runner)
}

// Hash returns the name that stands for a key where FF_HASH_CACHE_KEYS is on. The key is as it was written: every one has a hash.
func Hash(raw string) string {
	sum := sha256.Sum256([]byte(raw))
	return hex.EncodeToString(sum[:])
}

// Sharded returns a hash as a path: one folder for each of its first two digits, since stores are slow with very many names side by side.
func Sharded(hash string) string {
	if len(hash) < 2 {
		return hash
	}
	return hash[:2] + "/" + hash
}
