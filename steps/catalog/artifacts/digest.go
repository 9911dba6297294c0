package artifacts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// contentDigest returns what the files are, whatever their times and the form of the archive: the SHA-256 of a line "<type> <hash>
// <path>\n" for each, in the order of their paths, as components have it (steps/source/tree). Two runs that make the same files have
// the same digest, which the bytes of their archives have not.
func contentDigest(ctx context.Context, dir string, names []string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	manifest := sha256.New()
	for _, name := range slices.Sorted(slices.Values(names)) {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		info, err := root.Lstat(filepath.FromSlash(name))
		if err != nil {
			continue // the archive has said that it is gone
		}
		kind, hash, err := contentOf(root, filepath.FromSlash(name), info)
		if err != nil {
			return "", err
		}
		if kind != 0 {
			fmt.Fprintf(manifest, "%c %s %s\n", kind, hash, name)
		}
	}
	return "sha256:" + hex.EncodeToString(manifest.Sum(nil)), nil
}

// contentOf returns the type of a file and the hash of its content; 0 for what is not a file or link.
func contentOf(root *os.Root, name string, info fs.FileInfo) (kind byte, hash string, err error) {
	sum := sha256.New()
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		if err != nil {
			return 0, "", err
		}
		kind = 'l'
		_, _ = io.WriteString(sum, target)
	case info.Mode().IsRegular():
		f, err := root.Open(name)
		if err != nil {
			return 0, "", err
		}
		_, err = io.Copy(sum, f)
		f.Close()
		if err != nil {
			return 0, "", err
		}
		if kind = 'f'; info.Mode()&0o111 != 0 {
			kind = 'x'
		}
	}
	return kind, hex.EncodeToString(sum.Sum(nil)), nil
}
