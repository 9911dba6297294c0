package archive

import (
	"context"
	"io"
	"os"

	"github.com/rungci/rung/internal/pack"
)

// MaxEntries bounds the number of entries of an archive, whatever its Limits say.
const MaxEntries = 2_000_000

// maxBytes stands for no limit, and leaves room to compute with it.
const maxBytes = 1 << 60

// Limits bound what an archive may hold. 0 means no limit.
type Limits struct {
	Bytes   int64 // of all files together, holes of sparse files included
	Entries int
}

// LimitError says that an archive holds more than it may, UnsafeError that an entry of it would be written where it must not.
type (
	LimitError  = pack.LimitError
	UnsafeError = pack.UnsafeError
)

// Unpack unpacks an archive below dir, which is made. What an entry replaces is removed first. Owners, and the bits that make
// programs run as somebody else, are not restored.
func Unpack(ctx context.Context, r io.Reader, dir string) error {
	return UnpackWithin(ctx, r, dir, Limits{})
}

// UnpackWithin is Unpack for an archive of somebody who is not trusted. The error is a *LimitError where it holds too much.
func UnpackWithin(ctx context.Context, r io.Reader, dir string, limits Limits) error {
	if limits.Bytes <= 0 {
		limits.Bytes = maxBytes
	}
	if limits.Entries <= 0 || limits.Entries > MaxEntries {
		limits.Entries = MaxEntries
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	_, err := pack.ExtractTar(ctx, r, dir, pack.ExtractOptions{MaxBytes: limits.Bytes, MaxEntries: limits.Entries, Replace: true})
	return err
}
