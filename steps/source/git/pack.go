package git

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/rungci/rung/steps/source/tree"
)

// Limits of a pack, which is read into memory object by object.
const (
	maxPack    = 2 << 30   // bytes of a pack as it is sent
	maxObjects = 5_000_000 // objects in a pack
	maxObject  = 512 << 20 // bytes of one object
	// maxLoose is how many objects a pack may have that builds on what is here already. They are stored one by one.
	maxLoose = 50_000
)

// received is a pack in a temporary file.
type received struct {
	file    *os.File
	name    string // the hash at its end, in hexadecimal
	objects uint32
	size    int64
	limit   packLimit
}

// packLimit is how large a pack may be, and the error that a larger one, or a larger object, is.
type packLimit struct {
	bytes int64
	err   error
}

// ofComponents is the limit of what is fetched for components.
var ofComponents = packLimit{maxPack, tree.ErrLimit}

// receivePack stores a pack in a new file in dir. What ends early, or is not what the hash at its end says, is an error.
// Report is told how many bytes there are so far.
func receivePack(dir string, pack io.Reader, limit packLimit, report func(int64)) (got *received, err error) {
	file, err := os.CreateTemp(dir, temporaryPrefix)
	if err != nil {
		return nil, err
	}
	pending := &received{file: file, limit: limit}
	defer func() {
		if err != nil {
			pending.discard()
		}
	}()
	return pending, pending.receive(pack, report)
}

func (r *received) receive(pack io.Reader, report func(int64)) error {
	sum := trailing{hash: sha1.New()}
	buf := make([]byte, 64<<10)
	for {
		n, rerr := pack.Read(buf)
		if _, err := r.file.Write(buf[:n]); err != nil {
			return err
		}
		sum.write(buf[:n])
		if r.size += int64(n); r.size > r.limit.bytes {
			return fmt.Errorf("%w: the server sends more than %d MiB", r.limit.err, r.limit.bytes>>20)
		}
		report(r.size)
		if errors.Is(rerr, io.EOF) {
			break
		}
		if rerr != nil {
			return rerr
		}
	}
	var head [12]byte
	if _, err := r.file.ReadAt(head[:], 0); err != nil || !bytes.Equal(head[:4], []byte("PACK")) {
		return errNoPack
	}
	if !sum.matches() {
		return fmt.Errorf("the pack that the server sent is damaged: %w", io.ErrUnexpectedEOF)
	}
	r.objects, r.name = binary.BigEndian.Uint32(head[8:]), hex.EncodeToString(sum.tail)
	if r.objects > maxObjects {
		return fmt.Errorf("%w: the server sends %d objects, and %d is the limit", r.limit.err, r.objects, maxObjects)
	}
	return r.checkSizes()
}

func (r *received) discard() {
	_ = r.file.Close()
	_ = os.Remove(r.file.Name())
}

// trailing hashes everything but the last 20 bytes of what is written to it, and keeps those.
type trailing struct {
	hash hash.Hash
	tail []byte
}

func (t *trailing) write(p []byte) {
	t.tail = append(t.tail, p...)
	if cut := len(t.tail) - sha1.Size; cut > 0 {
		t.hash.Write(t.tail[:cut])
		t.tail = append(t.tail[:0], t.tail[cut:]...)
	}
}

func (t *trailing) matches() bool { return bytes.Equal(t.hash.Sum(nil), t.tail) }

// checkSizes reads through the pack once, before anything of it is held in memory: a few bytes can stand for gigabytes.
func (r *received) checkSizes() error {
	if _, err := r.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	scan := packfile.NewScanner(r.file)
	if _, _, err := scan.Header(); err != nil {
		return damagedPack(err)
	}
	for range r.objects {
		h, err := scan.NextObjectHeader()
		if err != nil {
			return damagedPack(err)
		}
		size := h.Length
		if size <= maxObject {
			start := &head{}
			if _, _, err := scan.NextObject(start); err != nil {
				return damagedPack(err)
			}
			if h.Type.IsDelta() {
				_, n := binary.Uvarint(start.data) // of what it is a delta to
				result, m := binary.Uvarint(start.data[max(n, 0):])
				if n <= 0 || m <= 0 {
					return damagedPack(errors.New("a delta without sizes"))
				}
				size = int64(min(result, 1<<62))
			}
		}
		if size < 0 || size > maxObject {
			return fmt.Errorf("%w: a file of %d MiB, and %d MiB is the limit", r.limit.err, size>>20, maxObject>>20)
		}
	}
	return nil
}

func damagedPack(err error) error {
	return fmt.Errorf("the pack that the server sent is damaged: %w", err)
}

// head keeps the first bytes of what is written to it.
type head struct{ data []byte }

func (h *head) Write(p []byte) (int, error) {
	const enough = 2 * binary.MaxVarintLen64
	if room := enough - len(h.data); room > 0 {
		h.data = append(h.data, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// looseStore stores objects one at a time; the storage's own way of writing keeps a file open for each until the end.
type looseStore struct{ storer.EncodedObjectStorer }

// store makes a pack part of the repository in dir. Every object is hashed by that.
func (r *received) store(dir string) error {
	defer r.discard()
	index := new(idxfile.Writer)
	err := r.parse(nil, index)
	if errors.Is(err, packfile.ErrReferenceDeltaNotFound) {
		// It builds on objects that are here, so that the file alone would be no use.
		if r.objects > maxLoose {
			return fmt.Errorf("the pack has %d objects that build on others, and %d is the limit", r.objects, maxLoose)
		}
		return r.parse(looseStore{filesystem.NewStorage(osfs.New(dir), cache.NewObjectLRUDefault())})
	}
	if err != nil {
		return err
	}
	base := filepath.Join(dir, packsDir, "pack-"+r.name)
	if err := writeIndex(base+".idx", index); err != nil {
		return err
	}
	if err := r.file.Close(); err != nil {
		return err
	}
	return os.Rename(r.file.Name(), base+".pack")
}

func (r *received) parse(objects storer.EncodedObjectStorer, observers ...packfile.Observer) error {
	if _, err := r.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	parser, err := packfile.NewParserWithStorage(packfile.NewScanner(r.file), objects, observers...)
	if err != nil {
		return err
	}
	if _, err = parser.Parse(); err != nil && !errors.Is(err, packfile.ErrReferenceDeltaNotFound) {
		return damagedPack(err)
	}
	return err
}

func writeIndex(name string, from *idxfile.Writer) error {
	index, err := from.Index()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), temporaryPrefix)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = idxfile.NewEncoder(f).Encode(index)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
