package cachekey

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/glob"
)

// MaxFiles is how many files or patterns a key can depend on.
const MaxFiles = 2

// Repository is what a key can depend on: the commit that a job is for.
type Repository interface {
	// Files returns the paths of all files of the commit.
	Files() ([]string, error)
	// Blob returns the ID that Git gives a file's content; "" when the commit has no such file.
	Blob(path string) (id string, err error)
	// LastCommit returns the ID of the latest commit, up to this one, that changed a file or folder; "" when there is none.
	LastCommit(path string) (id string, err error)
}

// Files is a key that depends on files. Either of the lists is set.
type Files struct {
	// Files are paths and patterns, whose stars mean what they mean to glob.Wildcard. The key changes with the content.
	Files []string
	// Commits are paths. The key changes with every commit that touches one of them.
	Commits []string
	// Prefix is before the rest. When it is nil there is one that tells the caches of a job apart.
	Prefix *string
}

// Key returns the key of a job's cache, of which it may have several; index counts from 0. Of files that are not there nothing
// comes in, and when none is there "default" stands for them.
func (f Files) Key(index int, in Repository) (string, error) {
	if len(f.Files) > MaxFiles || len(f.Commits) > MaxFiles {
		return "", fmt.Errorf("a cache key can depend on %d files or patterns, and there are %d", MaxFiles, max(len(f.Files), len(f.Commits)))
	}
	ids, err := f.ids(in)
	if err != nil {
		return "", fmt.Errorf("computing the cache key: %w", err)
	}
	digest := digestOf(ids)
	if prefix := f.prefix(index); strings.TrimSpace(prefix) != "" {
		return prefix + "-" + digest, nil
	}
	return digest, nil
}

// prefix is what is before the digest: that of the cache, or its number and what its files are called up to the first dot.
func (f Files) prefix(index int) string {
	if f.Prefix != nil {
		return *f.Prefix
	}
	text := fmt.Sprint(index)
	for _, file := range f.Files { // not of commits, as GitLab has it
		name, _, _ := strings.Cut(file, ".")
		text += "_" + name
	}
	return text
}

func (f Files) ids(in Repository) ([]string, error) {
	var ids []string
	if len(f.Files) > 0 {
		paths, err := f.expand(in)
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			id, err := in.Blob(p)
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
		return ids, nil
	}
	for _, p := range f.Commits {
		id, err := in.LastCommit(p)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// expand returns the files that the patterns stand for.
func (f Files) expand(in Repository) ([]string, error) {
	var paths, all []string
	for _, pattern := range f.Files {
		if !strings.Contains(pattern, "*") {
			paths = append(paths, pattern)
			continue
		}
		if all == nil {
			var err error
			if all, err = in.Files(); err != nil {
				return nil, err
			}
		}
		match := glob.Wildcard(pattern)
		for _, file := range all {
			if match(file) {
				paths = append(paths, file)
			}
		}
	}
	return paths, nil
}

// digestOf makes one name of many IDs, whatever their order. SHA-1 is GitLab's choice; it protects nothing here.
func digestOf(ids []string) string {
	sorted := slices.DeleteFunc(slices.Sorted(slices.Values(ids)), func(id string) bool { return id == "" })
	if sorted = slices.Compact(sorted); len(sorted) == 0 {
		return DefaultServer
	}
	sum := sha1.Sum([]byte(strings.Join(sorted, "-")))
	return hex.EncodeToString(sum[:])
}
