// Package hashfiles implements hashFiles of GitHub's expressions: one digest of all files that match the patterns.
//
// Files are found in the order of GitHub's package @actions/glob, as the digest depends on it: by the first of the patterns that leads
// to a folder, and below that by name. Patterns are relative to the workspace, and only files in it count.
package hashfiles

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// followOption as the first argument follows symbolic links to folders.
const followOption = "--follow-symbolic-links"

// Timeout is how long one call may take, as on GitHub.
const Timeout = 120 * time.Second

// Sum returns the SHA-256, in hexadecimal, of the SHA-256 digests of all files that the arguments of hashFiles find; "" when they find none.
// Each argument holds patterns, one a line. workspace is a whole path.
func Sum(ctx context.Context, workspace string, arguments []string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, Timeout, fmt.Errorf("it takes longer than %v", Timeout))
	defer cancel()
	s := &search{ctx: ctx, workspace: filepath.Clean(workspace), sum: sha256.New()}
	if len(arguments) > 0 && strings.HasPrefix(arguments[0], "--") {
		if !strings.EqualFold(arguments[0], followOption) {
			return "", fmt.Errorf("unknown option %q; there is %s", arguments[0], followOption)
		}
		s.follow, arguments = true, arguments[1:]
	}
	for _, line := range strings.Split(strings.Join(arguments, "\n"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		p, err := parse(s.workspace, line)
		if err != nil {
			return "", err
		}
		s.patterns = append(s.patterns, p...)
	}
	for _, root := range roots(s.patterns) {
		if below(root, s.workspace) {
			root = s.workspace // no file above it counts
		}
		if !below(s.workspace, root) {
			continue
		}
		if err := s.walk(root, nil); err != nil {
			return "", err
		}
	}
	if s.found == 0 {
		return "", nil
	}
	return hex.EncodeToString(s.sum.Sum(nil)), nil
}

// roots are the folders and files at which to begin, in the order of the patterns, none below another one.
func roots(patterns []*pattern) []string {
	candidates := map[string]bool{}
	for _, p := range patterns {
		if !p.negated {
			candidates[p.root] = true
		}
	}
	var found []string
	for _, p := range patterns {
		if p.negated || slices.Contains(found, p.root) {
			continue
		}
		covered := false
		for at := p.root; !covered && filepath.Dir(at) != at; {
			at = filepath.Dir(at)
			covered = candidates[at]
		}
		if !covered {
			found = append(found, p.root)
		}
	}
	return found
}

type search struct {
	ctx       context.Context
	workspace string
	follow    bool
	patterns  []*pattern
	sum       hash.Hash
	found     int
}

// below reports whether path is dir or in it.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// walk hashes what matches at the path and below it. chain holds the real paths of the folders above, when links are followed.
func (s *search) walk(path string, chain []string) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	names := strings.Split(filepath.ToSlash(path), "/")
	file, folder := s.matches(names)
	if !file && !folder && !slices.ContainsFunc(s.patterns, func(p *pattern) bool { return !p.negated && p.leadsTo(names) }) {
		return nil
	}
	stat := os.Lstat
	if s.follow {
		stat = os.Stat
	}
	info, err := stat(path)
	switch {
	case os.IsNotExist(err): // nothing there, or a link that leads nowhere
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		if !file {
			return nil
		}
		return s.add(path)
	}
	if s.follow {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return err
		}
		if slices.Contains(chain, real) {
			return nil // a circle
		}
		chain = append(slices.Clip(chain), real)
	}
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := s.walk(filepath.Join(path, entry.Name()), chain); err != nil {
			return err
		}
	}
	return nil
}

// matches reports whether the path is wanted if it is a file, and if it is a folder. The last pattern that matches decides.
func (s *search) matches(names []string) (file, folder bool) {
	for _, p := range s.patterns {
		if p.match(names) {
			file, folder = file && p.foldersOnly || !p.negated && !p.foldersOnly, !p.negated
		}
	}
	return file, folder
}

// add hashes a file, through links.
func (s *search) add(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return err // a link to a folder, a pipe
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, &stoppable{s.ctx, f}); err != nil {
		return &fs.PathError{Op: "read", Path: path, Err: err}
	}
	s.sum.Write(h.Sum(nil))
	s.found++
	return nil
}

// stoppable is a reader that ends with its context.
type stoppable struct {
	ctx context.Context
	io.Reader
}

func (r *stoppable) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(b)
}
