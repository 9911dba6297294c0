package repository

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/catalog/cachekey"
)

// CacheKeys returns the project as the keys of caches see it. Where files are not as they are committed, keys are those that
// GitLab would make if they were: a changed lock file has a cache of its own. Keys that depend on commits do not see such changes.
func (r *Repository) CacheKeys(ctx context.Context) cachekey.Repository {
	return keys{ctx, r}
}

// keys is a Repository for the time of a call: the interface has no contexts.
type keys struct {
	ctx context.Context
	*Repository
}

// Files implements cachekey.Repository.
func (k keys) Files() ([]string, error) { return k.Repository.Files(k.ctx) }

// Blob implements cachekey.Repository.
func (k keys) Blob(path string) (string, error) {
	l, err := k.list(k.ctx)
	if err != nil {
		return "", err
	}
	at, found := slices.BinarySearchFunc(l.entries, path, func(e entry, name string) int { return strings.Compare(e.name, name) })
	if !found {
		return "", nil
	}
	if blob := l.entries[at].blob; blob != "" {
		if changed, err := k.isModified(path); err != nil || !changed {
			return blob, err
		}
	}
	return k.hash(path)
}

// isModified reports whether a tracked file is not as in the index.
func (k keys) isModified(path string) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.modified == nil {
		names, err := k.diff(k.ctx, "")
		if err != nil {
			return false, err
		}
		k.modified = make(map[string]bool, len(names))
		for _, name := range names {
			k.modified[name] = true
		}
	}
	return k.modified[path], nil
}

// hash returns the name that Git would give the content of a file.
func (k keys) hash(path string) (string, error) {
	file := filepath.Join(k.Root, filepath.FromSlash(path))
	info, err := os.Lstat(file)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", shown(path), err)
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(file)
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", shown(path), err)
		}
		return k.blobName([]byte(filepath.ToSlash(target))), nil
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("reading %s: it is not a regular file", shown(path))
	}
	if k.Git { // which knows how lines end in the repository
		id, err := k.git(k.ctx, "hash-object", "--", path)
		return strings.TrimSpace(id), err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", shown(path), err)
	}
	return k.blobName(content), nil
}

// blobName is Git's name for a content.
func (k keys) blobName(content []byte) string {
	object := append(fmt.Appendf(nil, "blob %d\x00", len(content)), content...)
	if k.ObjectFormat == "sha256" {
		sum := sha256.Sum256(object)
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.Sum(object)
	return hex.EncodeToString(sum[:])
}

// LastCommit implements cachekey.Repository.
func (k keys) LastCommit(path string) (string, error) {
	if k.Commit == nil || path == "" {
		return "", nil
	}
	return k.question(k.ctx, "log", "-1", "--no-show-signature", "--no-color", "--format=%H", "HEAD", "--", path)
}
