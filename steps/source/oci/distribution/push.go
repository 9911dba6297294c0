package distribution

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/rungci/rung/steps/source/archive/download"
)

// HasBlob reports whether the repository has a blob.
func (r *Repository) HasBlob(ctx context.Context, d Descriptor) (bool, error) {
	err := r.call(ctx, func(ctx context.Context) (*http.Request, error) {
		return r.request(ctx, http.MethodHead, r.path("blobs", d.Digest.String()), nil), nil
	}, func(*http.Response) error { return nil })
	var status *download.StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// PushBlob uploads a blob unless it is there. Open is called again for every try.
func (r *Repository) PushBlob(ctx context.Context, d Descriptor, open func() (io.ReadCloser, error)) error {
	if there, err := r.HasBlob(ctx, d); there || err != nil {
		return err
	}
	return r.policy.Do(ctx, func(ctx context.Context) (bool, error) { return false, r.upload(ctx, d, open) })
}

// upload makes one try: it asks for a place, and puts the blob there.
func (r *Repository) upload(ctx context.Context, d Descriptor, open func() (io.ReadCloser, error)) error {
	var place *url.URL
	once := *r
	once.policy.Attempts = 1
	err := once.call(ctx, func(ctx context.Context) (*http.Request, error) {
		return r.request(ctx, http.MethodPost, r.path("blobs", "uploads/"), []byte{}), nil
	}, func(resp *http.Response) (err error) {
		if place, err = resp.Location(); err != nil {
			return errors.New("the registry names no place to upload to")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if place.Scheme != r.base.Scheme && place.Scheme != "https" {
		return fmt.Errorf("the registry wants an upload to %s without encryption", place.Host)
	}
	query := place.Query()
	query.Set("digest", d.Digest.String())
	place.RawQuery = query.Encode()
	return once.call(ctx, func(ctx context.Context) (*http.Request, error) {
		req := r.request(ctx, http.MethodPut, "", nil)
		req.URL, req.Host = place, place.Host
		req.Header.Set("Content-Type", "application/octet-stream")
		req.ContentLength = d.Size
		req.GetBody = open
		var err error
		req.Body, err = open()
		if d.Size == 0 && err == nil {
			_ = req.Body.Close()
			req.Body, req.GetBody = http.NoBody, nil
		}
		return req, err
	}, func(*http.Response) error { return nil })
}

// PushManifest stores a manifest under a tag, or under its digest.
func (r *Repository) PushManifest(ctx context.Context, reference string, m *Manifest) error {
	return r.call(ctx, func(ctx context.Context) (*http.Request, error) {
		req := r.request(ctx, http.MethodPut, r.path("manifests", reference), m.Data)
		req.Header.Set("Content-Type", m.MediaType)
		return req, nil
	}, func(resp *http.Response) error {
		if got, want := resp.Header.Get("Docker-Content-Digest"), DigestOf(m.Data).String(); got != "" && got != want {
			return &DigestError{"what the registry stored", want, got}
		}
		return nil
	})
}
