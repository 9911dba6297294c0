package cache

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/transfer"
)

// address is a store that is one signed address for each key.
type address struct {
	client  *transfer.Client
	urls    map[string]string // by key; "" stands for every key
	headers http.Header
}

// newAddress returns a store that keeps at one address. Azure's need a header that says what they are made of.
func newAddress(call *program.Call, target string, headers http.Header) (store, error) {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		return nil, errors.New("the address for the cache cannot be read; it is like https://HOST/PATH?SIGNATURE")
	}
	const blobType = "X-Ms-Blob-Type"
	if strings.HasSuffix(u.Hostname(), ".blob.core.windows.net") && headers.Get(blobType) == "" {
		headers.Set(blobType, "BlockBlob")
	}
	return &address{client: client(call), urls: map[string]string{"": target}, headers: headers}, nil
}

func (s *address) get(ctx context.Context, key string) (*os.File, func(), error) {
	target, ok := s.urls[key]
	if !ok {
		return nil, nil, errMissing
	}
	f, done, err := temporary()
	if err != nil {
		return nil, nil, err
	}
	if _, _, err := s.client.Download(ctx, transfer.Request{URL: target}, f); err != nil {
		done()
		if transfer.IsStatus(err, http.StatusNotFound) {
			return nil, nil, errMissing
		}
		return nil, nil, err
	}
	return f, done, nil
}

// current cannot know: the address is signed for one method.
func (s *address) current(context.Context, string, string, time.Time) (bool, error) {
	return false, nil
}

func (s *address) create(string) (*os.File, error) { return os.CreateTemp("", "cache-*.zip") }

func (s *address) put(ctx context.Context, _ string, a archive) error {
	defer os.Remove(a.path)
	content, size, err := transfer.File(a.path)
	if err != nil {
		return err
	}
	headers := s.headers.Clone()
	if headers.Get("Content-Type") == "" {
		headers.Set("Content-Type", "application/octet-stream")
	}
	resp, err := s.client.Do(ctx, transfer.Request{Method: http.MethodPut, URL: s.urls[""], Header: headers, Secret: keys(headers), Body: content, Size: size})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// keys are the names of headers: what somebody gave for one server is for that server.
func keys(h http.Header) []string {
	var names []string
	for name := range h {
		names = append(names, name)
	}
	return names
}
