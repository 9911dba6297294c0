package pack

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// Gzip writes files one behind the other, each a gzip member of its own that names it: the format of artifacts that are reports. There
// must be files only. The name of the member is the file's, without its folders; the comment is all of its path.
func Gzip(ctx context.Context, w io.Writer, dir string, names []string, o Options) (*Summary, error) {
	src, err := newSource(ctx, dir, names)
	if err != nil {
		return nil, err
	}
	defer src.close()
	z, err := gzip.NewWriterLevel(w, flateLevels[o.Level])
	if err != nil {
		return nil, err
	}
	for {
		it, err := src.readFile("a gzip artifact")
		if it == nil || err != nil {
			return src.summary, err
		}
		z.Reset(w)
		z.Name, z.Comment = headerText(path.Base(it.name)), headerText(it.name)
		if t := it.info.ModTime(); t.Unix() > 0 {
			z.ModTime = t
		}
		n, err := io.Copy(z, it.content())
		_ = it.file.Close()
		if err == nil {
			err = z.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("packing %q: %w", it.name, err)
		}
		src.summary.Bytes += n
	}
}

// readFile returns the next entry, which must be a file. What is missing is passed over.
func (s *source) readFile(what string) (*item, error) {
	special := len(s.summary.Warnings)
	it, err := s.read()
	if err != nil {
		return nil, err
	}
	for _, w := range s.summary.Warnings[special:] {
		if w.Reason == Special {
			if it != nil && it.file != nil {
				_ = it.file.Close()
			}
			return nil, fmt.Errorf("%q is %s; %s holds regular files only", w.Name, kindName(w.Mode), what)
		}
	}
	if it != nil && it.file == nil {
		return nil, fmt.Errorf("%q is %s; %s holds regular files only: name the files themselves", it.name, kindName(it.info.Mode()), what)
	}
	return it, nil
}

// headerText makes a text fit a gzip header, which has Latin-1 only and whose texts end at a zero byte. What is not ASCII is escaped
// as in an address, behind "e:", and so is what holds a percent sign.
func headerText(s string) string {
	plain := !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 || r == '%' || r == 0 })
	if plain {
		return s
	}
	return "e:" + url.PathEscape(s)
}
