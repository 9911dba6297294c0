package bundle

import (
	"encoding/binary"
	"io"
)

// Signatures and sizes of what ends a zip archive. Source: PKWARE's APPNOTE.TXT, sections 4.3.14 to 4.3.16.
const (
	endSignature     = 0x06054b50
	endSize          = 22
	locator64Size    = 20
	end64Signature   = 0x06064b50
	locator64        = 0x07064b50
	end64Size        = 56
	maxCommentLength = 1<<16 - 1
)

// checkDirectory bounds the list of files at the end of an archive before anything keeps it in memory: a file of a few megabytes
// can announce a million.
func checkDirectory(f io.ReaderAt, size int64) error {
	tail := make([]byte, min(size, endSize+maxCommentLength))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && len(tail) > 0 {
		return err
	}
	at := lastSignature(tail)
	if at < 0 {
		if isZip(f) {
			return damaged("it is cut short: the list of its files is missing; copy it again")
		}
		return ErrNotBundle
	}
	end := size - int64(len(tail)) + int64(at)
	files := uint64(binary.LittleEndian.Uint16(tail[at+10:]))
	length := uint64(binary.LittleEndian.Uint32(tail[at+12:]))
	start := uint64(binary.LittleEndian.Uint32(tail[at+16:]))
	if files == 1<<16-1 || length == 1<<32-1 || start == 1<<32-1 {
		var err error
		if files, length, start, err = directory64(f, end); err != nil {
			return err
		}
	}
	if files > MaxPackages+2 {
		return damaged("it has %d files, and %d is the limit", files, MaxPackages+2)
	}
	if length > maxDirectory || start > uint64(end) || uint64(end)-start > maxDirectory {
		return damaged("the list of its files is larger than that of %d packages can be", MaxPackages)
	}
	return nil
}

func isZip(f io.ReaderAt) bool {
	var magic [4]byte
	_, err := f.ReadAt(magic[:], 0)
	return err == nil && string(magic[:]) == "PK\x03\x04"
}

// lastSignature finds the end record in the last bytes of a file, -1 where there is none.
func lastSignature(tail []byte) int {
	for i := len(tail) - endSize; i >= 0; i-- {
		if binary.LittleEndian.Uint32(tail[i:]) == endSignature {
			return i
		}
	}
	return -1
}

// directory64 reads where the list of files is, and how long, from the records of archives larger than 4 GiB.
func directory64(f io.ReaderAt, end int64) (files, length, start uint64, err error) {
	var locator [locator64Size]byte
	if _, err := f.ReadAt(locator[:], end-locator64Size); err != nil || binary.LittleEndian.Uint32(locator[:]) != locator64 {
		return 0, 0, 0, damaged("the list of its files cannot be found")
	}
	var record [end64Size]byte
	at := binary.LittleEndian.Uint64(locator[8:])
	if at > uint64(end) {
		return 0, 0, 0, damaged("the list of its files cannot be found")
	}
	if _, err := f.ReadAt(record[:], int64(at)); err != nil || binary.LittleEndian.Uint32(record[:]) != end64Signature {
		return 0, 0, 0, damaged("the list of its files cannot be found")
	}
	return binary.LittleEndian.Uint64(record[32:]), binary.LittleEndian.Uint64(record[40:]), binary.LittleEndian.Uint64(record[48:]), nil
}
