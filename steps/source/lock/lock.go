// Package lock reads and writes lock files, which pin every reference to the package that it resolved to.
package lock

import (
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/rungci/rung/internal/projectfile"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/plan"
)

// Name is the usual name of a lock file; it is beside the steps that it is for.
const Name = "steps.lock"

// Version is the version of the format. A change that old readers would misread gets a new one.
const Version = 1

// MaxSize bounds a lock file, in bytes.
const MaxSize = 16 << 20

// File is a lock file.
type File struct {
	Version  int       `toml:"version"`
	Packages []Package `toml:"package"`
	// Images are the images of containers: of jobs, services, actions and steps.
	Images []Image `toml:"image,omitempty"`
	// Closed are the places of which nothing may be used that is not in the file.
	Closed []Closed `toml:"closed,omitempty"`
}

// Package is something that was fetched, with the components in it that are used.
type Package struct {
	Kind plan.RefKind `toml:"kind"` // git, oci or archive
	URL  string       `toml:"url"`  // as named, before sources are mapped to others; without credentials
	Rev  string       `toml:"rev,omitempty"`
	Pin  string       `toml:"pin"` // what the revision was: a commit, or "sha256:…" of a manifest or an archive
	// Content is the content digest of the package. Where that depends on the platform, it is that of Platform. Of git it may be empty:
	// then the commit alone is demanded.
	Content    string      `toml:"content,omitempty"`
	Platform   string      `toml:"platform,omitempty"`
	Components []Component `toml:"component"`
}

// Component is a definition in a package.
type Component struct {
	Reference string `toml:"reference"`      // as written
	Path      string `toml:"path,omitempty"` // of its folder in the package
	File      string `toml:"file"`
	Digest    string `toml:"digest"` // content digest of the folder
}

// Image is what the name of an image pointed to.
type Image struct {
	Name   string `toml:"name"`   // as it is written: "alpine:3"
	Digest string `toml:"digest"` // of the manifest, or of the index of those for several platforms
}

// header is what is at the top of a lock file.
const header = "# Written by \"step-runner lock\". Keep it in version control with the steps it is for.\n\n"

// Find returns the package that a location and revision were locked to, nil when there is none. In the names of GitHub's repositories case
// does not count.
func (f *File) Find(kind plan.RefKind, url, rev string) *Package {
	if f == nil {
		return nil
	}
	for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, sameOnGitHub} {
		for i := range f.Packages {
			if p := &f.Packages[i]; p.Kind == kind && p.Rev == rev && same(p.URL, url) {
				return p
			}
		}
	}
	return nil
}

func sameOnGitHub(a, b string) bool {
	return strings.HasPrefix(b, plan.GitHubURL) && strings.EqualFold(a, b)
}

// Image returns the digest that the name of an image was locked to, "" when it was not. Of a name with a digest it is that one.
func (f *File) Image(name string) (digest string) {
	if containers.HasDigest(name) {
		return containers.ParseName(name).Digest
	}
	if f == nil {
		return ""
	}
	for i := range f.Images {
		if containers.SameImage(f.Images[i].Name, name) {
			return f.Images[i].Digest
		}
	}
	return ""
}

// AddImage notes an image. One that the file has is not added again.
func (f *File) AddImage(name, digest string) {
	if f.Image(name) == "" {
		f.Images = append(f.Images, Image{name, digest})
	}
}

// Component returns the digest that a definition in the package was locked with, "" when it was not.
func (p *Package) Component(path, file string) (digest string) {
	for _, c := range p.Components {
		if c.Path == path && c.File == file {
			return c.Digest
		}
	}
	return ""
}

// Add notes a component. What already exists is not added again.
func (f *File) Add(p Package, c Component) {
	have := f.Find(p.Kind, p.URL, p.Rev)
	if have == nil {
		p.Components = nil
		f.Packages = append(f.Packages, p)
		have = &f.Packages[len(f.Packages)-1]
	}
	if !slices.Contains(have.Components, c) {
		have.Components = append(have.Components, c)
	}
}

// Encode returns the text of the file: the same packages always give the same text.
func (f *File) Encode() ([]byte, error) {
	sorted := File{Version: Version, Packages: slices.Clone(f.Packages), Images: slices.Clone(f.Images), Closed: f.Closed}
	slices.SortFunc(sorted.Images, func(a, b Image) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(sorted.Packages, func(a, b Package) int {
		return cmp.Or(strings.Compare(a.URL, b.URL), strings.Compare(a.Rev, b.Rev), strings.Compare(string(a.Kind), string(b.Kind)))
	})
	for i := range sorted.Packages {
		p := &sorted.Packages[i]
		p.Components = slices.Clone(p.Components)
		slices.SortFunc(p.Components, func(a, b Component) int {
			return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.File, b.File), strings.Compare(a.Reference, b.Reference))
		})
	}
	text, err := toml.Marshal(sorted)
	if err != nil {
		return nil, fmt.Errorf("encoding the lock file: %w", err)
	}
	return append([]byte(header), text...), nil
}

// Text is the text of the file as a step-runner takes it; that of nil is "".
func (f *File) Text() (string, error) {
	if f == nil {
		return "", nil
	}
	text, err := f.Encode()
	return string(text), err
}

// Parse reads what Encode writes. Name is used in errors.
func Parse(name string, text []byte) (*File, error) {
	var f File
	dec := toml.NewDecoder(strings.NewReader(string(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		var strict *toml.StrictMissingError
		var at *toml.DecodeError
		switch {
		case errors.As(err, &strict) && len(strict.Errors) > 0:
			line, column := strict.Errors[0].Position()
			return nil, fmt.Errorf("%s:%d:%d: the key %q is not known here; was it written by a newer version?", name, line, column, strings.Join(strict.Errors[0].Key(), "."))
		case errors.As(err, &at):
			line, column := at.Position()
			return nil, fmt.Errorf("%s:%d:%d: %s", name, line, column, strings.TrimPrefix(at.Error(), "toml: "))
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if f.Version != Version {
		return nil, fmt.Errorf("%s has version %d, and this program reads version %d: write it again with step-runner lock", name, f.Version, Version)
	}
	for i := range f.Packages {
		if err := f.check(i); err != nil {
			return nil, fmt.Errorf("%s: package %d (%s) %w: write the file again with step-runner lock", name, i+1, f.Packages[i].URL, err)
		}
	}
	for i := range f.Images {
		if err := f.checkImage(i); err != nil {
			return nil, fmt.Errorf("%s: image %d (%s) %w: write the file again with step-runner lock", name, i+1, f.Images[i].Name, err)
		}
	}
	return &f, nil
}

// checkImage says what is wrong with an image.
func (f *File) checkImage(i int) error {
	image := f.Images[i]
	switch {
	case image.Name == "" || strings.Contains(image.Name, "@"):
		return errors.New("has no name, or one with a digest")
	case !isDigest(image.Digest):
		return errors.New("has a digest that is not sha256: and 64 hexadecimal digits")
	case slices.ContainsFunc(f.Images[:i], func(other Image) bool { return containers.SameImage(other.Name, image.Name) }):
		return errors.New("is there twice")
	}
	return nil
}

// check says what is wrong with a package.
func (f *File) check(i int) error {
	switch p := &f.Packages[i]; {
	case p.URL == "" || p.Pin == "" || p.Content == "" && p.Kind != plan.RefGit || !slices.Contains([]plan.RefKind{plan.RefGit, plan.RefOCI, plan.RefArchive}, p.Kind):
		return errors.New("has no kind, url, pin or content")
	case p.Kind == plan.RefGit && !isHex(p.Pin, sha1.Size):
		return errors.New("has a pin that is not the full name of a commit")
	case p.Kind != plan.RefGit && !isDigest(p.Pin):
		return errors.New("has a pin that is not a digest")
	case p.Content != "" && !isDigest(p.Content):
		return errors.New("has a content that is not a digest")
	case f.Find(p.Kind, p.URL, p.Rev) != p:
		return errors.New("is there twice")
	}
	return nil
}

func isDigest(text string) bool {
	sum, ok := strings.CutPrefix(text, "sha256:")
	return ok && isHex(sum, sha256.Size)
}

// isHex reports whether text is so many bytes in hexadecimal, in lower case.
func isHex(text string, size int) bool {
	return len(text) == 2*size && strings.Trim(text, "0123456789abcdef") == ""
}

// Read reads a lock file. Where there is none the error is fs.ErrNotExist.
func Read(path string) (*File, error) {
	info, err := os.Stat(path) // before it is opened: that would wait for whoever writes to a pipe
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	if info.Size() > MaxSize {
		return nil, fmt.Errorf("%s is larger than %d MiB, the limit for a lock file", path, MaxSize>>20)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// ReadIfThere reads the lock file of a project, or returns nil where there is none. No link leads it out of its folder.
func ReadIfThere(path string) (*File, error) {
	text, err := projectfile.Read(filepath.Dir(path), filepath.Base(path), MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}
