package bundle

import (
	"archive/zip"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/source/tree"
)

// Item is a package that goes into a bundle.
type Item struct {
	Digest     string // content digest
	Components []string
	Local      bool
	// Open opens the package's archive; it is called more than once and has to give the same bytes every time.
	Open func() (io.ReadCloser, error)
}

// Write writes a bundle of a trace, which open opens, and packages. Every package is held against its digest.
func Write(w io.Writer, open func() (io.ReadCloser, error), items []Item) (*Manifest, error) {
	items = slices.Clone(items)
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(a.Digest, b.Digest) })
	if len(items) > MaxPackages {
		return nil, fmt.Errorf("there are %d packages, and %d is the limit of a bundle", len(items), MaxPackages)
	}
	m := &Manifest{Format: Format, Packages: []Package{}}
	var err error
	if m.Trace, err = measure(open, MaxTrace); err != nil {
		return nil, fmt.Errorf("the trace: %w", err)
	}
	for _, item := range items {
		p, err := describe(item)
		if err != nil {
			return nil, fmt.Errorf("the package of %s: %w", strings.Join(item.Components, " and "), err)
		}
		m.Packages = append(m.Packages, p)
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	out := zip.NewWriter(w)
	out.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.DefaultCompression) })
	manifest := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(text) + "\n")), nil }
	if err := add(out, manifestName, manifest); err != nil {
		return nil, err
	}
	if err := add(out, traceName, open); err != nil {
		return nil, err
	}
	for _, item := range items {
		if err := add(out, nameOf(item.Digest), item.Open); err != nil {
			return nil, err
		}
	}
	return m, out.Close()
}

// describe verifies a package.
func describe(item Item) (Package, error) {
	in, err := item.Open()
	if err != nil {
		return Package{}, err
	}
	_, err = tree.Verify(in, item.Digest)
	in.Close()
	if err != nil {
		return Package{}, err
	}
	size, err := measure(item.Open, maxPackage)
	components := slices.Clone(item.Components)
	slices.Sort(components)
	return Package{Digest: item.Digest, Bytes: size.Bytes, Components: slices.Compact(components), Local: item.Local}, err
}

// measure reads a file of at most limit bytes.
func measure(open func() (io.ReadCloser, error), limit int64) (File, error) {
	in, err := open()
	if err != nil {
		return File{}, err
	}
	defer in.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(in, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("it is larger than %d MiB, the limit in a bundle", limit>>20)
	}
	return File{SHA256: hex.EncodeToString(sum.Sum(nil)), Bytes: n}, err
}

// add adds a file with nothing but its name and content: no time, no mode, so that the same content gives the same bytes.
func add(out *zip.Writer, name string, open func() (io.ReadCloser, error)) error {
	in, err := open()
	if err != nil {
		return err
	}
	defer in.Close()
	w, err := out.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
	if err == nil {
		_, err = io.Copy(w, in)
	}
	if err != nil {
		return fmt.Errorf("packing %s: %w", name, err)
	}
	return nil
}
