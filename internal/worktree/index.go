package worktree

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// stamp is a time as the system keeps it.
type stamp struct{ seconds, nanos int64 }

// stat is what Git's index remembers of a file, so that it need not read the file to know that it has not changed.
type stat struct {
	known              bool
	ctime, mtime       stamp
	dev, ino, uid, gid uint32
	size               uint32
}

// writeIndex writes the index of the copy. It is the original's, but where that vouches for a file, it vouches for the file's copy:
// else the first `git status` in the copy would read every file again. Times are as git left them wherever there is doubt.
func (r *repository) writeIndex(to string, times []pair) error {
	file := filepath.Join(r.dir, "index")
	info, err := os.Stat(file)
	if gone(err) {
		return nil // a repository without commits has none
	}
	if err != nil {
		return err
	}
	if info.Size() > MaxIndex {
		return fmt.Errorf("%s is larger than %d bytes", file, MaxIndex)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if written := statOf(info); written.known {
		sum := sha1.New()
		if r.config.get("extensions.objectformat") == "sha256" {
			sum = sha256.New()
		}
		restamp(data, times, written.mtime, sum)
	}
	if err := os.WriteFile(filepath.Join(to, "index"), data, 0o666); err != nil {
		return err
	}
	return r.copySplitIndex(to)
}

// copySplitIndex copies the larger part of an index that is split in two: it is a file beside it.
func (r *repository) copySplitIndex(to string) error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "sharedindex.") {
			continue
		}
		if err := copyText(filepath.Join(r.dir, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Of an index file; see gitformat-index(5).
const (
	indexHeader  = 12
	statFields   = 40
	extendedFlag = 0x4000
	typeFile     = 0o100000 >> 12
	typeLink     = 0o120000 >> 12
)

// restamp gives the entries of an index the times of the copies. An index that it cannot read stays as it is: git says what is wrong
// with it. The index was written at the given time, and vouches for nothing that is younger.
func restamp(data []byte, times []pair, written stamp, sum hash.Hash) {
	trailer := len(data) - sum.Size()
	if trailer < indexHeader || !bytes.HasPrefix(data, []byte("DIRC")) {
		return
	}
	version, count := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	if version < 2 || version > 4 {
		return
	}
	changed := false
	at := indexHeader
	var name []byte
	for range count {
		flags := at + statFields + sum.Size()
		start := flags + 2
		if start > trailer {
			return
		}
		if version >= 3 && binary.BigEndian.Uint16(data[flags:])&extendedFlag != 0 {
			start += 2
		}
		var next int
		var ok bool
		if name, next, ok = indexName(data[:trailer], version, at, start, name); !ok {
			return
		}
		entry := data[at : at+statFields]
		if p := find(times, name); p != nil && vouches(entry, p.from, written) && p.to.mtime == p.from.mtime {
			put(entry, p.to)
			changed = true
		}
		at = next
	}
	if !changed || bytes.Equal(data[trailer:], make([]byte, sum.Size())) {
		return // without a sum (index.skipHash) there is none to correct
	}
	sum.Write(data[:trailer])
	copy(data[trailer:], sum.Sum(nil))
}

// indexName reads the name of the entry at a place, and says where the next entry is. In version 4 a name begins as the one before.
func indexName(data []byte, version uint32, at, start int, last []byte) (name []byte, next int, ok bool) {
	strip := uint64(0)
	if version == 4 {
		for first := true; ; first = false {
			if start >= len(data) {
				return nil, 0, false
			}
			b := data[start]
			start++
			if !first {
				strip++
			}
			strip = strip<<7 | uint64(b&0x7f)
			if b&0x80 == 0 {
				break
			}
		}
		if strip > uint64(len(last)) {
			return nil, 0, false
		}
	}
	if start > len(data) {
		return nil, 0, false
	}
	end := bytes.IndexByte(data[start:], 0)
	if end < 0 {
		return nil, 0, false
	}
	end += start
	if version == 4 {
		return append(append([]byte(nil), last[:len(last)-int(strip)]...), data[start:end]...), end + 1, true
	}
	next = at + (end-at+8)/8*8 // one to eight zeros fill it up
	return data[start:end], next, next <= len(data)
}

// find returns what is known of a file.
func find(times []pair, name []byte) *pair {
	i := sort.Search(len(times), func(i int) bool { return times[i].name >= string(name) })
	if i < len(times) && times[i].name == string(name) && times[i].from.known && times[i].to.known {
		return &times[i]
	}
	return nil
}

// vouches reports whether an entry says of a file that it has not changed. Where it was written in the same moment as the index, the
// entry proves nothing.
func vouches(entry []byte, s stat, written stamp) bool {
	field := func(i int) uint32 { return binary.BigEndian.Uint32(entry[4*i:]) }
	if kind := field(6) >> 12; kind != typeFile && kind != typeLink {
		return false
	}
	same := func(i int, t stamp) bool {
		nanos := field(i + 1)
		return field(i) == uint32(t.seconds) && (nanos == 0 || nanos == uint32(t.nanos))
	}
	older := s.mtime.seconds < written.seconds || s.mtime.seconds == written.seconds && s.mtime.nanos < written.nanos
	return older && same(0, s.ctime) && same(2, s.mtime) && field(5) == s.ino && field(7) == s.uid && field(8) == s.gid && field(9) == s.size
}

// put writes what the system says of a copy into an entry.
func put(entry []byte, s stat) {
	for i, v := range []uint32{
		uint32(s.ctime.seconds), uint32(s.ctime.nanos), uint32(s.mtime.seconds), uint32(s.mtime.nanos), s.dev, s.ino,
	} {
		binary.BigEndian.PutUint32(entry[4*i:], v)
	}
	binary.BigEndian.PutUint32(entry[28:], s.uid)
	binary.BigEndian.PutUint32(entry[32:], s.gid)
}
