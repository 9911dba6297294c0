package oci

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/klauspost/compress/zstd"

	"github.com/rungci/rung/steps/source/oci"
	"github.com/rungci/rung/steps/source/oci/distribution"
)

// builtLayer is a layer in the layout.
type builtLayer struct {
	descriptor distribution.Descriptor
	plain      distribution.Digest // of the archive before it was compressed
}

// layer writes files as a layer.
func (b *builder) layer(content files) (l builtLayer, err error) {
	temp, err := b.layout.temp()
	if err != nil {
		return l, err
	}
	defer os.Remove(temp.Name())
	defer temp.Close()
	sum, plainSum := sha256.New(), sha256.New()
	counted := &counter{w: io.MultiWriter(temp, sum)}
	z, mediaType, err := b.compressor(counted)
	if err != nil {
		return l, err
	}
	defer z.Close()
	if err := b.archive(io.MultiWriter(z, plainSum), content); err != nil {
		return l, err
	}
	if err := z.Close(); err != nil {
		return l, err
	}
	if err := temp.Close(); err != nil {
		return l, err
	}
	l.plain = distribution.DigestSum(plainSum)
	l.descriptor = distribution.Descriptor{MediaType: mediaType, Digest: distribution.DigestSum(sum), Size: counted.n}
	return l, b.layout.adopt(temp.Name(), l.descriptor.Digest)
}

// imageLayerType is that of layers that every container engine reads.
const imageLayerType = "application/vnd.oci.image.layer.v1.tar+gzip"

// zstdLayerType is that of layers that newer engines, and tools for artifacts, read.
const zstdLayerType = "application/vnd.oci.image.layer.v1.tar+zstd"

// compressor is what layers are compressed with, and their media type.
func (b *builder) compressor(out io.Writer) (io.WriteCloser, string, error) {
	if b.options.Entrypoint != "" {
		z, err := gzip.NewWriterLevel(out, gzip.BestCompression)
		return z, imageLayerType, err
	}
	// One goroutine: with more of them the bytes would depend on the machine.
	z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if b.options.ArtifactType != "" {
		return z, zstdLayerType, err
	}
	return z, oci.LayerMediaType, err
}

// archive writes files as a tar archive, folders before what is in them.
func (b *builder) archive(w io.Writer, content files) error {
	out := tar.NewWriter(w)
	made := map[string]bool{".": true}
	var folder func(name string) error
	folder = func(name string) error {
		if made[name] {
			return nil
		}
		if err := folder(path.Dir(name)); err != nil {
			return err
		}
		made[name] = true
		return out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: b.time()})
	}
	for _, name := range content.names() {
		if b.ctx.Err() != nil {
			return context.Cause(b.ctx)
		}
		if err := folder(path.Dir(name)); err != nil {
			return err
		}
		if err := b.archiveFile(out, name, content[name]); err != nil {
			return err
		}
	}
	return out.Close()
}

func (b *builder) archiveFile(out *tar.Writer, name string, f file) error {
	if f.link != "" {
		return out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: f.link, Mode: 0o777, ModTime: b.time()})
	}
	mode := int64(0o644)
	if f.executable {
		mode = 0o755
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: f.size, ModTime: b.time()}); err != nil {
		return err
	}
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	if n, err := io.Copy(out, in); err != nil || n != f.size {
		return fmt.Errorf("%s changed while it was read: %w", f.path, orShort(err))
	}
	return nil
}

func orShort(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
