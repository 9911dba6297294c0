package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"sync/atomic"
)

// What is compressed and waits to be written is bounded, in bytes and in number; each worker has buffers for one piece besides.
const (
	// pieceSize is how much of a file is compressed at a time. Larger files are made in pieces, or streamed.
	pieceSize = 1 << 20
	// maxWaiting bounds the uncompressed bytes of pieces that are not written yet.
	maxWaiting = 32 << 20
	// maxPieces bounds their number, and so that of open files.
	maxPieces = 256
)

// piece is a part of an entry on its way: a folder, a link or a small file is one piece, a large file is several.
type piece struct {
	item        *item
	first, last bool
	offset      int64
	stream      bool // the writer reads and compresses the file by itself
	open        *atomic.Int32

	done   chan struct{} // closed when what follows is set
	err    error
	packed []byte
	stored bool // packed is not compressed
	size   int64
	crc    uint32
}

// weight is what the piece counts against maxWaiting.
func (p *piece) weight() int64 {
	if p.item.file == nil || p.stream {
		return 0
	}
	return min(pieceSize, p.item.info.Size()-p.offset)
}

// pipeline compresses the entries of a source with several workers and hands them on in order.
type pipeline struct {
	ctx      context.Context
	cancel   context.CancelFunc
	source   *source
	newCodec func() (codec, error)
	split    bool // large files are compressed in pieces; else they are streamed

	tasks chan *piece // for the workers
	order chan *piece // for the writer
	room  *room
}

// run compresses all, and calls write for every piece, in order. After an error nothing more is written.
func (p *pipeline) run(workers int, write func(*piece) error) error {
	p.tasks, p.order = make(chan *piece, maxPieces), make(chan *piece, maxPieces)
	p.room = newRoom()
	var group sync.WaitGroup
	for range workers {
		group.Go(p.work)
	}
	var readErr error
	group.Go(func() {
		defer close(p.order)
		defer close(p.tasks)
		readErr = p.read()
	})
	err := p.write(write)
	if err != nil {
		p.cancel()
	}
	for piece := range p.order { // what was made in vain
		<-piece.done
		p.release(piece)
	}
	group.Wait()
	if err != nil {
		return err // what reading said is that it was canceled
	}
	return readErr
}

// write hands the pieces on.
func (p *pipeline) write(write func(*piece) error) error {
	for piece := range p.order {
		<-piece.done
		err := piece.err
		if err == nil {
			err = write(piece)
		}
		p.release(piece)
		if err != nil {
			return err
		}
	}
	return nil
}

// release gives back what a piece holds.
func (p *pipeline) release(piece *piece) {
	p.room.free(piece.weight())
	if piece.item.file != nil && piece.open.Add(-1) == 0 {
		_ = piece.item.file.Close()
	}
}

// read makes pieces of the source's entries.
func (p *pipeline) read() error {
	for {
		it, err := p.source.read()
		if it == nil || err != nil {
			return err
		}
		if it.file == nil || (!p.split && it.info.Size() > pieceSize) {
			done := make(chan struct{})
			close(done)
			p.put(&piece{item: it, first: true, last: true, stream: it.file != nil, open: openParts(1), done: done}, false)
			continue
		}
		size := it.info.Size()
		parts := max(1, (size+pieceSize-1)/pieceSize)
		open := openParts(int32(min(parts, 1<<31-1)))
		for i := range parts {
			p.put(&piece{
				item: it, first: i == 0, last: i == parts-1, offset: i * pieceSize, open: open, done: make(chan struct{}),
			}, true)
		}
	}
}

func openParts(n int32) *atomic.Int32 {
	var open atomic.Int32
	open.Store(n)
	return &open
}

func (p *pipeline) put(piece *piece, work bool) {
	p.room.take(piece.weight())
	p.order <- piece
	if work {
		p.tasks <- piece
	}
}

// work compresses pieces, one at a time.
func (p *pipeline) work() {
	raw := make([]byte, pieceSize)
	packed := &bytes.Buffer{}
	codec, err := p.newCodec()
	for piece := range p.tasks {
		if err != nil {
			piece.err = err
		} else if piece.err = p.compress(piece, codec, raw, packed); piece.err != nil {
			piece.err = fmt.Errorf("packing %q: %w", piece.item.name, piece.err)
		}
		close(piece.done)
	}
}

func (p *pipeline) compress(piece *piece, c codec, raw []byte, packed *bytes.Buffer) error {
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	raw = raw[:piece.weight()]
	n, err := piece.item.file.ReadAt(raw, piece.offset)
	if err != nil && !errors.Is(err, io.EOF) { // a file that became shorter meanwhile is as long as it is now
		return err
	}
	raw = raw[:n]
	piece.size, piece.crc = int64(n), crc32.ChecksumIEEE(raw)
	packed.Reset()
	if n > 0 || !piece.first {
		if err := c.piece(packed, raw, piece.last); err != nil {
			return err
		}
	}
	if alone := piece.first && piece.last; alone && packed.Len() >= n {
		piece.packed, piece.stored = bytes.Clone(raw), true
		return nil
	}
	piece.packed = bytes.Clone(packed.Bytes())
	return nil
}

// room is what may wait to be written.
type room struct {
	mu     sync.Mutex
	freed  sync.Cond
	bytes  int64
	pieces int
}

func newRoom() *room {
	r := &room{}
	r.freed.L = &r.mu
	return r
}

// take waits until there is room. A piece on its own always has some.
func (r *room) take(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.pieces > 0 && (r.bytes+n > maxWaiting || r.pieces >= maxPieces) {
		r.freed.Wait()
	}
	r.bytes += n
	r.pieces++
}

func (r *room) free(n int64) {
	r.mu.Lock()
	r.bytes -= n
	r.pieces--
	r.mu.Unlock()
	r.freed.Signal()
}
