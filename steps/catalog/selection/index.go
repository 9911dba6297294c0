package selection

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// maxIndex is the size of an index that is read, in bytes. One of a million files has about 100 MiB.
const maxIndex = 512 << 20

// Sizes of an entry of an index before its name, in bytes: times, mode and size, the object's name, flags.
const (
	fixedSize  = 40
	sha1Size   = 20
	sha256Size = 32
	flagsSize  = 2
)

var errIndex = errors.New("Git's index is damaged")

// walkUntracked is what `git ls-files --others` lists in a work tree, for images that have no Git.
func walkUntracked(ctx context.Context, dir string) ([]string, error) {
	tracked, err := trackedFiles(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if path == dir {
			return nil
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		switch {
		case entry.IsDir() && name == ".git":
			return filepath.SkipDir
		case entry.IsDir():
			if _, err := os.Lstat(filepath.Join(path, ".git")); err != nil {
				return nil
			}
			if !tracked[name] { // a repository of its own, not a submodule
				names = append(names, name+"/")
			}
			return filepath.SkipDir
		case !tracked[name] && (entry.Type().IsRegular() || entry.Type()&fs.ModeSymlink != 0):
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// trackedFiles are the names in the index of a work tree, slash-separated.
func trackedFiles(dir string) (map[string]bool, error) {
	gitDir := filepath.Join(dir, ".git")
	if link, err := readAtMost(gitDir, 1<<16); err == nil { // of a linked work tree
		target, ok := strings.CutPrefix(strings.TrimSpace(string(link)), "gitdir: ")
		if !ok {
			return nil, errIndex
		}
		if gitDir = target; !filepath.IsAbs(gitDir) {
			gitDir = filepath.Join(dir, gitDir)
		}
	}
	if info, err := os.Stat(gitDir); err != nil || !info.IsDir() {
		return nil, errors.New("the folder is not a Git work tree")
	}
	data, err := readAtMost(filepath.Join(gitDir, "index"), maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	hash := sha1Size
	if config, err := readAtMost(filepath.Join(gitDir, "config"), 1<<20); err == nil && sha256Objects.Match(config) {
		hash = sha256Size
	}
	return parseIndex(data, hash)
}

var sha256Objects = regexp.MustCompile(`(?mi)^\s*objectformat\s*=\s*sha256\s*$`)

func readAtMost(name string, limit int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", filepath.Base(name), limit)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit))
}

// parseIndex reads the names of an index of version 2, 3 or 4.
func parseIndex(data []byte, hash int) (map[string]bool, error) {
	if len(data) < 12+hash || string(data[:4]) != "DIRC" {
		return nil, errIndex
	}
	version, count := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	if version < 2 || version > 4 {
		return nil, fmt.Errorf("Git's index has version %d, which only Git reads", version)
	}
	rest := data[12 : len(data)-hash]
	if int64(count)*int64(fixedSize+hash+flagsSize) > int64(len(rest)) {
		return nil, errIndex
	}
	names := make(map[string]bool, count)
	name := ""
	for range count {
		n, size, ok := indexEntry(rest, hash, version, name)
		if !ok {
			return nil, errIndex
		}
		name, rest = n, rest[size:]
		names[name] = true
	}
	for len(rest) >= 8 { // extensions; those that change what the entries mean begin with a small letter
		if rest[0] >= 'a' && rest[0] <= 'z' {
			return nil, fmt.Errorf("Git's index has the extension %q, which only Git reads", rest[:4])
		}
		size := int64(binary.BigEndian.Uint32(rest[4:])) + 8
		if size > int64(len(rest)) {
			return nil, errIndex
		}
		rest = rest[size:]
	}
	return names, nil
}

// indexEntry reads the name at the beginning of data, and how many bytes the entry has.
func indexEntry(data []byte, hash int, version uint32, before string) (name string, size int, ok bool) {
	at := fixedSize + hash
	if len(data) < at+flagsSize {
		return "", 0, false
	}
	extended := binary.BigEndian.Uint16(data[at:])&0x4000 != 0
	if at += flagsSize; extended {
		at += flagsSize
	}
	if at > len(data) {
		return "", 0, false
	}
	kept := 0
	if version == 4 { // a number of bytes to drop from the name before
		drop, n := offsetNumber(data[at:])
		if n == 0 || drop > len(before) {
			return "", 0, false
		}
		kept, at = len(before)-drop, at+n
	}
	length := bytes.IndexByte(data[at:], 0)
	if length < 0 {
		return "", 0, false
	}
	name = before[:kept] + string(data[at:at+length])
	size = at + length + 1
	if version < 4 {
		size = (at + length + 8) &^ 7
	}
	return name, size, size <= len(data)
}

// offsetNumber reads a number as packs write offsets, and how many bytes it has; 0 when there is none.
func offsetNumber(data []byte) (value, size int) {
	for i, b := range data[:min(len(data), 4)] {
		value |= int(b & 0x7f)
		if b&0x80 == 0 {
			return value, i + 1
		}
		value = (value + 1) << 7
	}
	return 0, 0
}
