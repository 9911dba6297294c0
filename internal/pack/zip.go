package pack

import (
	"archive/zip"
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"unicode/utf8"
)

// writeBuffer is how many bytes are written at a time.
const writeBuffer = 256 << 10

// Zip writes a zip archive. Its files are compressed with Deflate, or stored where that does not make them smaller.
func Zip(ctx context.Context, w io.Writer, dir string, names []string, o Options) (*Summary, error) {
	return writeZip(ctx, w, dir, names, o, zip.Deflate)
}

// ZipZstd writes a zip archive whose files are compressed with Zstandard. Not every program can read those.
func ZipZstd(ctx context.Context, w io.Writer, dir string, names []string, o Options) (*Summary, error) {
	return writeZip(ctx, w, dir, names, o, methodZstd)
}

// zipper writes the entries of a zip archive as they come from the workers.
type zipper struct {
	zip     *zip.Writer
	options Options
	method  uint16
	summary *Summary

	header *zip.FileHeader // of the file of which some pieces are written
	body   io.Writer
}

func writeZip(ctx context.Context, w io.Writer, dir string, names []string, o Options, method uint16) (*Summary, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	src, err := newSource(ctx, dir, names)
	if err != nil {
		return nil, err
	}
	defer src.close()
	src.readable = o.Readable
	buffered := bufio.NewWriterSize(w, writeBuffer)
	z := &zipper{zip: zip.NewWriter(buffered), options: o, method: method, summary: src.summary}
	newCodec := func() (codec, error) { return newDeflater(o.Level) }
	if method == methodZstd {
		newCodec = func() (codec, error) { return newFramer(o.Level) }
	}
	// Only Deflate's pieces make one stream: programs stop after the first frame of Zstandard.
	p := &pipeline{ctx: ctx, cancel: cancel, source: src, newCodec: newCodec, split: method == zip.Deflate}
	if err := p.run(o.workers(), z.write); err != nil {
		return nil, err
	}
	if err := z.zip.Close(); err != nil {
		return nil, fmt.Errorf("writing the archive: %w", err)
	}
	if err := buffered.Flush(); err != nil {
		return nil, fmt.Errorf("writing the archive: %w", err)
	}
	return z.summary, nil
}

// write takes the pieces in order.
func (z *zipper) write(p *piece) error {
	if err := z.writePiece(p); err != nil {
		return fmt.Errorf("packing %q: %w", p.item.name, err)
	}
	return nil
}

func (z *zipper) writePiece(p *piece) error {
	z.summary.Bytes += p.size
	switch {
	case p.item.file == nil:
		return z.writeSmall(p.item)
	case p.stream:
		return z.writeStream(p)
	case p.first:
		z.header = z.newHeader(p.item)
		z.header.Method = z.method
		if p.stored {
			z.header.Method = zip.Store
		}
		if !p.last {
			z.header.Flags |= flagDescriptor
		}
		z.count(p)
		body, err := z.zip.CreateRaw(z.header)
		if err != nil {
			return err
		}
		z.body = body
	default:
		z.count(p)
	}
	_, err := z.body.Write(p.packed)
	return err
}

// count adds a piece to what the header says. Of a file in several pieces the archive's directory, and what is written behind the
// content, are made from it when the last one is written.
func (z *zipper) count(p *piece) {
	h := z.header
	setSizes(h, combineCRC(h.CRC32, p.crc, p.size), h.UncompressedSize64+uint64(p.size), h.CompressedSize64+uint64(len(p.packed)))
}

// setSizes sets the sizes in both places that a header has for them: zip.Writer.CreateRaw copies one to the other, and it does so too
// early for a file whose size is not known yet.
func setSizes(h *zip.FileHeader, crc uint32, size, packed uint64) {
	h.CRC32, h.UncompressedSize64, h.CompressedSize64 = crc, size, packed
	h.UncompressedSize, h.CompressedSize = uint32(min(size, math.MaxUint32)), uint32(min(packed, math.MaxUint32))
}

// writeSmall writes a folder or a symbolic link.
func (z *zipper) writeSmall(it *item) error {
	h := z.newHeader(it)
	setSizes(h, crc32.ChecksumIEEE([]byte(it.target)), uint64(len(it.target)), uint64(len(it.target)))
	w, err := z.zip.CreateRaw(h)
	if err == nil && it.target != "" {
		_, err = io.WriteString(w, it.target)
	}
	return err
}

// writeStream compresses a large file while it writes it.
func (z *zipper) writeStream(p *piece) error {
	h := z.newHeader(p.item)
	h.Method = z.method
	h.Flags |= flagDescriptor
	w, err := z.zip.CreateRaw(h)
	if err != nil {
		return err
	}
	count := &counter{w: w}
	enc, err := newZstd(count, z.options.Level, z.options.workers())
	if err != nil {
		return err
	}
	sum := crc32.NewIEEE()
	n, err := io.Copy(enc, io.TeeReader(p.item.content(), sum))
	if cerr := enc.Close(); err == nil {
		err = cerr
	}
	setSizes(h, sum.Sum32(), uint64(n), uint64(count.n))
	z.summary.Bytes += n
	return err
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// Bits of a zip header's flags.
const (
	flagDescriptor = 0x8   // sizes and checksum stand behind the content
	flagUTF8       = 0x800 // the name is UTF-8
)

func (z *zipper) newHeader(it *item) *zip.FileHeader {
	h := &zip.FileHeader{Name: it.name, Method: zip.Store}
	if it.info.IsDir() {
		h.Name += "/"
	}
	if utf8.ValidString(h.Name) {
		for i := range len(h.Name) {
			if h.Name[i] >= utf8.RuneSelf {
				h.Flags |= flagUTF8
				break
			}
		}
	}
	const version = 20 // of the format: what Deflate needs
	h.SetMode(it.info.Mode())
	h.CreatorVersion = h.CreatorVersion&0xff00 | version
	h.ReaderVersion = version
	setTime(h, it.info)
	if z.options.Owners {
		h.Extra = append(h.Extra, ownerExtra(it.info)...)
	}
	return h
}

// setTime writes when a file was changed: in the format's own way, which has neither seconds nor a time zone, and in Unix's.
func setTime(h *zip.FileHeader, info fs.FileInfo) {
	t := info.ModTime()
	h.Modified = t
	utc := t.UTC()
	year := min(max(utc.Year(), 1980), 2107)
	if year == utc.Year() {
		h.ModifiedDate = uint16(utc.Day() + int(utc.Month())<<5 + (year-1980)<<9)
		h.ModifiedTime = uint16(utc.Second()/2 + utc.Minute()<<5 + utc.Hour()<<11)
	} else {
		h.ModifiedDate = uint16(1 + 1<<5 + (year-1980)<<9)
	}
	if seconds := t.Unix(); seconds >= 0 && seconds < 1<<31 {
		extra := []byte{'U', 'T', 5, 0, 1}
		h.Extra = append(h.Extra, binary.LittleEndian.AppendUint32(extra, uint32(seconds))...)
	}
}

// ownerExtra is what Info-ZIP writes about a file's owner.
func ownerExtra(info fs.FileInfo) []byte {
	uid, gid, ok := owner(info)
	if !ok {
		return nil
	}
	extra := []byte{'u', 'x', 11, 0, 1, 4}
	extra = binary.LittleEndian.AppendUint32(extra, uid)
	extra = append(extra, 4)
	return binary.LittleEndian.AppendUint32(extra, gid)
}
