package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"github.com/rungci/rung/internal/pack"
)

// ReadArchived returns one file of a zip archive of artifacts, in any way that artifacts are packed. It has at most so many bytes.
func ReadArchived(ctx context.Context, archive, name string, most int64) ([]byte, error) {
	in, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	entries, err := pack.OpenZip(in, info.Size(), &pack.Budget{MaxBytes: pack.DefaultMaxBytes, MaxEntries: pack.DefaultMaxEntries})
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(entries, func(e *pack.ZipEntry) bool { return e.Name == path.Clean(name) && e.Kind == pack.KindFile })
	if at < 0 {
		return nil, errors.New("the archive does not contain the file")
	}
	f, err := entries[at].Open(ctx)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("the file is larger than %d MiB", most>>20)
	}
	return data, err
}
