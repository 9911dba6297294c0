package pack

import (
	"context"
	"fmt"
	"io"
)

// Raw writes the content of the one file that there must be.
func Raw(ctx context.Context, w io.Writer, dir string, names []string) (*Summary, error) {
	src, err := newSource(ctx, dir, names)
	if err != nil {
		return nil, err
	}
	defer src.close()
	if len(src.names) != 1 {
		return nil, fmt.Errorf("a raw artifact is exactly one file, and there are %d; name one, or use the zip format", len(src.names))
	}
	it, err := src.readFile("a raw artifact")
	if err != nil {
		return nil, err
	}
	if it == nil {
		return nil, fmt.Errorf("there is no file %q, and a raw artifact is exactly one", src.names[0])
	}
	defer it.file.Close()
	src.summary.Bytes, err = io.Copy(w, it.content())
	if err != nil {
		return nil, fmt.Errorf("copying %q: %w", it.name, err)
	}
	return src.summary, nil
}
