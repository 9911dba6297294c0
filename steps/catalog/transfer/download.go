package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// Download gets what is at an address into a file, from its beginning, however often it has to be tried. The number is its size in
// bytes. The header is that of the answer.
func (c *Client) Download(ctx context.Context, r Request, to *os.File) (n int64, header http.Header, err error) {
	err = c.repeat(ctx, r, func() error {
		n, header, err = c.download(ctx, r, to)
		return err
	})
	return n, header, err
}

func (c *Client) download(ctx context.Context, r Request, to *os.File) (int64, http.Header, error) {
	if _, err := to.Seek(0, io.SeekStart); err != nil {
		return 0, nil, err
	}
	if err := to.Truncate(0); err != nil {
		return 0, nil, err
	}
	resp, err := c.once(ctx, r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body := &source{Reader: resp.Body}
	n, err := io.Copy(to, body)
	switch {
	case body.err != nil:
		return 0, nil, &NetworkError{Method: http.MethodGet, Address: Address(r.URL), Err: fmt.Errorf("after %d bytes: %w", n, body.err)}
	case err != nil:
		return 0, nil, fmt.Errorf("keeping what is downloaded: %w", err)
	case resp.ContentLength >= 0 && n != resp.ContentLength:
		return 0, nil, &NetworkError{Method: http.MethodGet, Address: Address(r.URL), Err: fmt.Errorf("%d bytes of %d came", n, resp.ContentLength)}
	}
	return n, resp.Header, nil
}

// source tells the mistakes of reading from those of writing.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// File returns what opens a file as the content of a request, and its size in bytes.
func File(path string) (open func() (io.ReadCloser, error), size int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	return func() (io.ReadCloser, error) { return os.Open(path) }, info.Size(), nil
}
