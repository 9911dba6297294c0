package github

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/steps/event"
)

// MaxSubjectFile bounds the file in GITHUB_ARTIFACTS, in bytes.
const MaxSubjectFile = 1 << 20

// declaration is a subject, and the line that declares it.
type declaration struct {
	subject
	line int
}

var (
	digestSuffix = lazyregexp.New(`^(.+)@(sha256|sha384|sha512):([0-9a-fA-F]+)$`)
	anyScheme    = lazyregexp.New(`^[A-Za-z][A-Za-z0-9+.-]*://`)
)

// digestSizes are how many digits digests have.
var digestSizes = map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}

// declareSubjects reads what the process says that it made.
func (s *Session) declareSubjects(*filter) error {
	text, err := s.readText("GITHUB_ARTIFACTS", MaxSubjectFile)
	if err != nil {
		return err
	}
	var declared []declaration
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		made, err := s.subject(line)
		if err != nil {
			return fmt.Errorf("GITHUB_ARTIFACTS: line %d: %w", number, err)
		}
		declared = append(declared, declaration{made, number})
	}
	added, err := s.job.declare(declared)
	if len(added) > 0 {
		s.process.Emit(event.Subjects{Subjects: added})
	}
	if err != nil {
		return fmt.Errorf("GITHUB_ARTIFACTS: %w", err)
	}
	return nil
}

// subject reads a line: a path, or an image's reference with a digest.
func (s *Session) subject(line string) (subject, error) {
	scheme, rest, ok := strings.Cut(line, "://")
	switch {
	case strings.Contains(line, "="):
		return subject{}, errors.New("entries with '=' are reserved")
	case ok && strings.EqualFold(scheme, "file"):
		return s.fileSubject(rest)
	case ok && strings.EqualFold(scheme, "oci"):
		return imageSubject(rest)
	case anyScheme.MatchString(line):
		return subject{}, fmt.Errorf("unsupported URI scheme in %q: write a path, file://… or oci://…", shorten(line))
	}
	if made, err := imageSubject(line); err == nil {
		return made, nil
	}
	return s.fileSubject(line)
}

func imageSubject(text string) (subject, error) {
	parts := digestSuffix().FindStringSubmatch(text)
	if parts == nil {
		return subject{}, fmt.Errorf("%q has no digest: write oci://image@sha256:…", shorten(text))
	}
	if want := digestSizes[parts[2]]; len(parts[3]) != want {
		return subject{}, fmt.Errorf("the digest of %q must have %d hexadecimal digits, not %d", shorten(parts[1]), want, len(parts[3]))
	}
	return subject{Name: parts[1], Digest: parts[2] + ":" + strings.ToLower(parts[3]), Kind: "oci"}, nil
}

// readThrough copies until the end, or until the process has no more time.
func (s *Session) readThrough(to io.Writer, from io.Reader) error {
	for {
		if s.process.Live.Err() != nil {
			return context.Cause(s.process.Live)
		}
		if _, err := io.CopyN(to, from, readAtOnce); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// readAtOnce is how much of a file is read before somebody looks whether there is time for more, in bytes.
const readAtOnce = 64 << 20

// fileSubject computes the digest of a file, whose path is relative to the workspace. Its name is its name there, without folders.
func (s *Session) fileSubject(path string) (subject, error) {
	if strings.TrimSpace(path) == "" {
		return subject{}, errors.New("the path is empty")
	}
	host := s.folders().hostPath(path)
	if !filepath.IsAbs(host) {
		host = filepath.Join(s.process.WorkDir, filepath.FromSlash(path))
	}
	f, err := openRegular(host)
	if errors.Is(err, fs.ErrNotExist) {
		return subject{}, fmt.Errorf("file %q does not exist: relative paths begin in the workspace", shorten(path))
	}
	if err != nil {
		return subject{}, err
	}
	defer f.Close()
	sum := sha256.New()
	if err := s.readThrough(sum, f); err != nil {
		return subject{}, fmt.Errorf("reading %q: %w", shorten(path), err)
	}
	return subject{Name: filepath.Base(host), Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)), Kind: "file"}, nil
}
