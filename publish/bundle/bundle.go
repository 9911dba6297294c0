// Package bundle packs a trace and its components into one file, so that the run can be replayed on any machine.
//
// A bundle is a zip archive:
//
//	manifest.json        what follows, with digests; its format is "rung.bundle/v1"
//	trace.json           the trace, byte for byte as it was where that was a document
//	packages/<hex>.tar   a package each, named by its content digest, as in the cache
//
// The same trace and components always give the same bytes. Nothing in a bundle is believed: the trace is held against the
// manifest, every package against its name, and an archive that is larger, or has other things in it, than what it should is
// refused before it is unpacked.
package bundle

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/rungci/rung/internal/pack"
	"github.com/rungci/rung/steps/source/tree"
	"github.com/rungci/rung/steps/trace"
)

// Format names the format of bundles and its version. A change that old readers would misread gets a new one.
const Format = formatName + "/v1"

const formatName = "rung.bundle"

// Limits of a bundle.
const (
	MaxPackages = 10_000
	MaxTrace    = 4 << 30 // in bytes
	maxManifest = 16 << 20
	// maxPackage is how large a package's archive may be: its files, and for each a header and its padding.
	maxPackage = tree.MaxSize + tree.MaxFiles*4096
)

// The names in the archive.
const (
	manifestName   = "manifest.json"
	traceName      = "trace.json"
	packagesFolder = "packages/"
	packageSuffix  = ".tar"
)

// Manifest says what is in a bundle.
type Manifest struct {
	Format   string    `json:"format"`
	Trace    File      `json:"trace"`
	Packages []Package `json:"packages"` // sorted by digest
}

// File is a file of a bundle.
type File struct {
	SHA256 string `json:"sha256"` // in hexadecimal
	Bytes  int64  `json:"bytes"`
}

// Package is what components came from.
type Package struct {
	Digest     string   `json:"digest"`     // content digest, "sha256:…"
	Bytes      int64    `json:"bytes"`      // of its archive
	Components []string `json:"components"` // the references to components in it, as their run resolved them
	Local      bool     `json:"local,omitempty"`
}

// ErrNotBundle is what the error of a file wraps that is not a bundle at all.
var ErrNotBundle = errors.New("is not a bundle")

// Bundle is an open bundle. It is a source.Store, safe for concurrent use.
type Bundle struct {
	Manifest Manifest
	name     string
	file     *os.File
	entries  map[string]*zip.File
}

// IsBundle reports whether a file looks like one: it begins as zip archives do.
func IsBundle(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [4]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && string(magic[:]) == "PK\x03\x04"
}

// Open opens a bundle. The error wraps ErrNotBundle where the file is something else, and says what is wrong where it is damaged.
func Open(path string) (*Bundle, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b := &Bundle{name: path, file: f, entries: map[string]*zip.File{}}
	if err := b.read(); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s %w", path, err)
	}
	return b, nil
}

// Close closes the file. The traces and packages of the bundle cannot be read any more.
func (b *Bundle) Close() error { return b.file.Close() }

func (b *Bundle) read() error {
	info, err := b.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return ErrNotBundle
	}
	if format, err := pack.Detect(b.file); err != nil || format != pack.FormatZip {
		return ErrNotBundle
	}
	var format *pack.FormatError
	switch err := pack.CheckZip(b.file, info.Size(), MaxPackages+2); {
	case errors.As(err, &format):
		return damaged("%s", format.Why)
	case err != nil:
		return damaged("%w", err)
	}
	archive, err := zip.NewReader(b.file, info.Size())
	if err != nil {
		return damaged("%v", err)
	}
	for _, f := range archive.File {
		if err := b.entry(f); err != nil {
			return err
		}
	}
	return b.manifest()
}

// damaged is the error of a bundle that we did not write so.
func damaged(format string, args ...any) error {
	return fmt.Errorf("is damaged: "+format, args...)
}

// entry takes in a file of the archive if it is one that a bundle can have.
func (b *Bundle) entry(f *zip.File) error {
	limit := uint64(maxPackage)
	switch {
	case f.Name == manifestName:
		limit = maxManifest
	case f.Name == traceName:
		limit = MaxTrace
	case digestOf(f.Name) == "":
		return damaged("it has the file %.80q, and a bundle has a manifest, a trace and packages", f.Name)
	}
	switch {
	case b.entries[f.Name] != nil:
		return damaged("it has the file %s twice", f.Name)
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return damaged("the file %s is compressed in a way that bundles do not use", f.Name)
	case f.UncompressedSize64 > limit:
		return damaged("the file %s has %d bytes, and %d is the limit", f.Name, f.UncompressedSize64, limit)
	}
	b.entries[f.Name] = f
	return nil
}

// digestOf is the content digest of the package with a name; "" when it is not the name of a package.
func digestOf(name string) string {
	rest, ok := strings.CutPrefix(name, packagesFolder)
	sum, tarred := strings.CutSuffix(rest, packageSuffix)
	if raw, err := hex.DecodeString(sum); !ok || !tarred || err != nil || len(raw) != sha256.Size || sum != hex.EncodeToString(raw) {
		return ""
	}
	return "sha256:" + sum
}

func nameOf(digest string) string {
	return packagesFolder + strings.TrimPrefix(digest, "sha256:") + packageSuffix
}

// manifest reads the manifest and holds it against what is there.
func (b *Bundle) manifest() error {
	if b.entries[manifestName] == nil {
		return fmt.Errorf("%w: it has no %s", ErrNotBundle, manifestName)
	}
	in, err := b.open(manifestName)
	if err != nil {
		return err
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	if err != nil {
		return damaged("%s: %v", manifestName, err)
	}
	var header struct{ Format string }
	if json.Unmarshal(text, &header) != nil || !strings.HasPrefix(header.Format, formatName+"/") {
		return fmt.Errorf("%w: its manifest is that of something else", ErrNotBundle)
	}
	if header.Format != Format {
		return fmt.Errorf("has the format %s and this version reads %s; a newer version wrote it: update this program", header.Format, Format)
	}
	if err := json.Unmarshal(text, &b.Manifest); err != nil {
		return damaged("%s: %v", manifestName, err)
	}
	if t := b.entries[traceName]; t == nil || t.UncompressedSize64 != uint64(max(b.Manifest.Trace.Bytes, 0)) {
		return damaged("it does not have the trace that its manifest names")
	}
	for _, p := range b.Manifest.Packages {
		f := b.entries[nameOf(p.Digest)]
		if digestOf(nameOf(p.Digest)) != p.Digest || f == nil || f.UncompressedSize64 != uint64(max(p.Bytes, 0)) {
			return damaged("it does not have the package %.80q that its manifest names", p.Digest)
		}
	}
	if len(b.entries) != len(b.Manifest.Packages)+2 {
		return damaged("it has %d packages, and its manifest names %d", len(b.entries)-2, len(b.Manifest.Packages))
	}
	return nil
}

// open opens a file of the bundle, of which no more is read than it announced.
func (b *Bundle) open(name string) (io.ReadCloser, error) {
	f := b.entries[name]
	if f == nil {
		return nil, fs.ErrNotExist
	}
	in, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%s %w", b.name, damaged("%s: %v", name, err))
	}
	return &limited{ReadCloser: in, left: int64(f.UncompressedSize64), name: b.name + ": " + name}, nil
}

// limited reads no more than a file announced.
type limited struct {
	io.ReadCloser
	left int64
	name string
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, fmt.Errorf("%s is larger than it says", l.name)
	}
	return n, err
}

// Package implements source.Store. Whoever reads the package holds it against its digest.
func (b *Bundle) Package(digest string) (io.ReadCloser, error) {
	name := nameOf(digest)
	if digestOf(name) != digest {
		return nil, fs.ErrNotExist
	}
	return b.open(name)
}

// Trace returns the bundle's trace, which is held against its digest first. Its logs are read from the bundle.
func (b *Bundle) Trace() (*trace.Trace, error) {
	in, err := b.open(traceName)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return nil, fmt.Errorf("%s %w", b.name, damaged("%s: %v", traceName, err))
	}
	if hex.EncodeToString(sum.Sum(nil)) != b.Manifest.Trace.SHA256 {
		return nil, fmt.Errorf("%s %w", b.name, damaged("its trace is not the one that its manifest names"))
	}
	return trace.ReadFrom(b.name, func() (io.ReadCloser, error) { return b.open(traceName) })
}

// Sum is the SHA-256 of the bundle's file, in hexadecimal.
func (b *Bundle) Sum() (string, error) {
	info, err := b.file.Stat()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(b.file, 0, info.Size())); err != nil {
		return "", fmt.Errorf("reading %s: %w", b.name, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Verify reads everything in the bundle and holds it against its digests.
func (b *Bundle) Verify() error {
	if _, err := b.Trace(); err != nil {
		return err
	}
	for _, p := range b.Manifest.Packages {
		if err := b.verify(p.Digest); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}

func (b *Bundle) verify(digest string) error {
	in, err := b.Package(digest)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = tree.Verify(in, digest)
	return err
}
