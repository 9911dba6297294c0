package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Sizes of a zip archive's records, in bytes.
const (
	endSize       = 22
	end64Size     = 56
	locatorSize   = 20
	directorySize = 46
	maxComment    = 1<<16 - 1
	usualRecord   = 512              // what an entry may take in the list, on average
	maxRecord     = 46 + 3*(1<<16-1) // and one alone
)

// directory is where the list of a zip archive's entries is.
type directory struct {
	count, size, offset uint64
	end                 int64 // where what follows the list begins
}

// CheckZip counts the entries of a zip archive, without keeping anything of them: package zip makes room for as many as there are,
// whatever number the archive gives. It is strict, where that package is not: the list is at the end, with nothing in between and nothing
// behind. An archive that is to be read by name alone is checked with it first.
func CheckZip(f io.ReaderAt, size int64, maxEntries int) error {
	d, err := findDirectory(f, size)
	if err != nil {
		return err
	}
	if d.count > uint64(maxEntries) {
		return &LimitError{"entries", int64(maxEntries)}
	}
	if d.size > uint64(maxEntries)*usualRecord+maxRecord {
		return damaged(fmt.Sprintf("its list of files has %d MiB, more than one of %d files needs", d.size>>20, maxEntries))
	}
	if d.offset > uint64(size) || d.size > uint64(size) || int64(d.offset+d.size) != d.end {
		return damaged("its list of files is not where it should be")
	}
	var count, at uint64
	head := make([]byte, directorySize)
	for at < d.size {
		if _, err := f.ReadAt(head, int64(d.offset+at)); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if at+directorySize > d.size || !bytes.HasPrefix(head, []byte("PK\x01\x02")) {
			return damaged("its list of files is not one")
		}
		at += directorySize + uint64(binary.LittleEndian.Uint16(head[28:])) + uint64(binary.LittleEndian.Uint16(head[30:])) +
			uint64(binary.LittleEndian.Uint16(head[32:]))
		if count++; count > d.count {
			break
		}
	}
	if count != d.count || at != d.size {
		return damaged(fmt.Sprintf("it says that it has %d entries, which is not so", d.count))
	}
	return nil
}

func damaged(why string) error { return &FormatError{Why: why} }

// findDirectory reads the records at the archive's end.
func findDirectory(f io.ReaderAt, size int64) (d directory, err error) {
	tail := make([]byte, min(size, endSize+maxComment))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return d, err
	}
	at := -1
	for i := len(tail) - endSize; i >= 0; i-- {
		if bytes.HasPrefix(tail[i:], magicEmptyZip) && i+endSize+int(binary.LittleEndian.Uint16(tail[i+20:])) <= len(tail) {
			at = i
			break
		}
	}
	if at < 0 {
		return d, damaged("its list of files is missing; it is cut short: copy or download it again")
	}
	end := tail[at:]
	if len(end) != endSize+int(binary.LittleEndian.Uint16(end[20:])) {
		return d, damaged("something follows its end")
	}
	d = directory{
		count:  uint64(binary.LittleEndian.Uint16(end[10:])),
		size:   uint64(binary.LittleEndian.Uint32(end[12:])),
		offset: uint64(binary.LittleEndian.Uint32(end[16:])),
		end:    size - int64(len(end)),
	}
	if binary.LittleEndian.Uint32(end[4:]) != 0 {
		return d, damaged("it is one of several volumes")
	}
	if d.count == 0xffff || d.size == 0xffff || d.size == 0xffffffff || d.offset == 0xffffffff {
		return findDirectory64(f, d)
	}
	if int64(d.offset+d.size) != d.end { // some writers add the records of a large archive to all
		large, err := findDirectory64(f, d)
		if err != nil {
			return d, err
		}
		if large.count == d.count && large.size == d.size && large.offset == d.offset { // or readers would see one archive or another
			return large, nil
		}
	}
	return d, nil
}

// findDirectory64 reads the records of a large archive, where they are.
func findDirectory64(f io.ReaderAt, d directory) (directory, error) {
	locator := make([]byte, locatorSize)
	if d.end < locatorSize {
		return d, nil
	}
	if _, err := f.ReadAt(locator, d.end-locatorSize); err != nil {
		return d, err
	}
	if !bytes.HasPrefix(locator, []byte("PK\x06\x07")) {
		return d, nil
	}
	at := binary.LittleEndian.Uint64(locator[8:])
	if at > uint64(d.end) || d.end-locatorSize-int64(at) != end64Size {
		return d, damaged("its end is not where it should be")
	}
	end := make([]byte, end64Size)
	if _, err := f.ReadAt(end, int64(at)); err != nil {
		return d, err
	}
	if !bytes.HasPrefix(end, []byte("PK\x06\x06")) {
		return d, damaged("its end is not one")
	}
	return directory{
		count:  binary.LittleEndian.Uint64(end[32:]),
		size:   binary.LittleEndian.Uint64(end[40:]),
		offset: binary.LittleEndian.Uint64(end[48:]),
		end:    int64(at),
	}, nil
}
