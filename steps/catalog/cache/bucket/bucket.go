// Package bucket keeps objects in the object stores of Amazon, Google and Microsoft, and in those that speak S3.
//
// A bucket is written as an address:
//
//	s3://BUCKET/PREFIX?region=R&endpoint=URL&path_style=BOOL
//	gs://BUCKET/PREFIX?endpoint=URL
//	azblob://ACCOUNT/CONTAINER/PREFIX?endpoint=URL
//
// Requests are signed here: three signatures are a few hundred lines, and what the vendors link into a program for them is some
// tens of megabytes. Credentials are the caller's; none is looked for anywhere else.
//
//   - s3 signs with AWS Signature Version 4, in headers, over the content's SHA-256. With an endpoint of its own the bucket's name is in
//     the path, as MinIO and others want it.
//   - gs signs addresses with the RSA key of a service account (GOOG4-RSA-SHA256); or, with a key of Google's interoperability, as s3 does.
//   - azblob signs with the account's key (Shared Key), or sends a shared access signature (SAS).
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/internal/sigv4"
	"github.com/rungci/rung/steps/catalog/transfer"
)

// ErrNotFound says that there is no object of a name.
var ErrNotFound = errors.New("there is no such object")

// What one request may hold, in bytes: the limits of the services for an object that comes in one piece.
const (
	MaxS3    = 5 << 30
	MaxGCS   = 5 << 40
	MaxAzure = 5000 << 20
)

// Config is what an address does not say.
type Config struct {
	// Getenv returns a credential by the name of its variable; "" when it is not there: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
	// AWS_SESSION_TOKEN, GOOGLE_APPLICATION_CREDENTIALS_JSON, AZURE_STORAGE_KEY, AZURE_STORAGE_SAS. AWS_REGION is asked for where the
	// address has no region.
	Getenv func(name string) string
	// Client makes the requests.
	Client *transfer.Client
	// Now is the time in signatures; nil is time.Now.
	Now func() time.Time
}

// Bucket is an open bucket. It is safe for concurrent use.
type Bucket struct {
	client *transfer.Client
	now    func() time.Time
	base   *url.URL // of the bucket
	prefix string   // is before all names
	signer signer
	meta   string      // is before the names of metadata
	put    http.Header // what every upload needs
	limit  int64       // of one upload, in bytes
}

// signer authorises a request as its last change. The digest is the SHA-256 of the content, in hexadecimal.
type signer interface {
	sign(r *http.Request, digest string, now time.Time) error
}

// Is reports whether a location is the address of a bucket, and not a folder.
func Is(location string) bool {
	scheme, _, ok := strings.Cut(location, "://")
	return ok && slices.Contains([]string{"s3", "gs", "azblob"}, strings.ToLower(scheme))
}

// Open reads an address, and finds the credentials. It makes no request.
func Open(address string, c Config) (*Bucket, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the bucket's address cannot be read; write it as s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or azblob://ACCOUNT/CONTAINER/PREFIX")
	}
	if u.User != nil {
		return nil, errors.New("the bucket's address has a user; credentials are given as secrets, not in the address")
	}
	if u.Host == "" {
		return nil, fmt.Errorf("the address %s:// names no bucket", u.Scheme)
	}
	b := &Bucket{client: c.Client, now: c.Now, prefix: strings.Trim(u.Path, "/")}
	if b.client == nil {
		b.client = &transfer.Client{}
	}
	if b.now == nil {
		b.now = time.Now
	}
	switch u.Scheme {
	case "s3":
		err = b.openS3(u, c.Getenv)
	case "gs":
		err = b.openGCS(u, c.Getenv)
	case "azblob":
		err = b.openAzure(u, c.Getenv)
	default:
		err = errors.New("its scheme is not s3, gs or azblob")
	}
	if err != nil {
		return nil, fmt.Errorf("opening the bucket %s://%s: %w", u.Scheme, u.Host, err)
	}
	return b, nil
}

// options reads the query of an address, whose names are given.
func options(u *url.URL, known ...string) (map[string]string, error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("what follows the question mark cannot be read; write it as name=value&name=value")
	}
	out := map[string]string{}
	for name, v := range values {
		switch {
		case !slices.Contains(known, name):
			return nil, fmt.Errorf("%q is not known here; known are %s", name, strings.Join(known, ", "))
		case len(v) != 1:
			return nil, fmt.Errorf("%q appears %d times", name, len(v))
		}
		out[name] = v[0]
	}
	return out, nil
}

// endpoint reads the address of a server; "" gives that of the vendor.
func endpoint(text, vendor string) (*url.URL, error) {
	if text == "" {
		text = vendor
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("the endpoint must be written as https://HOST or http://HOST")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the endpoint has a user, a query or a fragment; it is only scheme, host and path")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}

// Name returns how an object is called in the bucket, and in messages.
func (b *Bucket) Name(name string) string { return path.Join(b.prefix, name) }

// object returns the address of an object. Its path is encoded as signatures want it.
func (b *Bucket) object(name string) string {
	u := *b.base
	u.Path = u.Path + "/" + b.Name(name)
	u.RawPath = sigv4.EncodePath(u.Path)
	return u.String()
}

func (b *Bucket) request(method, name, digest string) transfer.Request {
	return transfer.Request{
		Method: method, URL: b.object(name), Header: http.Header{}, Secret: secretHeaders,
		Sign: func(r *http.Request) error { return b.signer.sign(r, digest, b.now().UTC()) },
	}
}

// secretHeaders authorise a request.
var secretHeaders = []string{"Authorization", "X-Amz-Security-Token"}

// Get writes an object into a file, from its beginning. The number is its size in bytes; the error is ErrNotFound when there is none.
func (b *Bucket) Get(ctx context.Context, name string, to *os.File) (int64, error) {
	n, _, err := b.client.Download(ctx, b.request(http.MethodGet, name, emptySHA256), to)
	return n, missing(err)
}

// Mark returns the text that Put kept beside an object; "" when the object has none. The error is ErrNotFound when there is no object.
func (b *Bucket) Mark(ctx context.Context, name string) (string, error) {
	resp, err := b.client.Do(ctx, b.request(http.MethodHead, name, emptySHA256))
	if err != nil {
		return "", missing(err)
	}
	defer resp.Body.Close()
	return resp.Header.Get(b.meta + markName), nil
}

// markName is the name of the metadata that hold the mark. Azure wants names that are identifiers of C#.
const markName = "rungmark"

// Content is what Put sends.
type Content struct {
	Open   func() (io.ReadCloser, error) // again for every attempt
	Size   int64                         // in bytes
	SHA256 string                        // in hexadecimal
	Mark   string                        // letters and digits that Mark returns later
}

// Put makes an object of a name, or replaces it.
func (b *Bucket) Put(ctx context.Context, name string, c Content) error {
	if c.Size > b.limit {
		return fmt.Errorf("%s is of %d bytes; this store takes at most %d in one piece", b.Name(name), c.Size, b.limit)
	}
	r := b.request(http.MethodPut, name, c.SHA256)
	r.Body, r.Size = c.Open, c.Size
	for header, values := range b.put {
		r.Header[header] = values
	}
	r.Header.Set("Content-Type", "application/octet-stream")
	if c.Mark != "" {
		r.Header.Set(b.meta+markName, c.Mark)
	}
	resp, err := b.client.Do(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return err
}

// missing makes ErrNotFound of the answer that says so.
func missing(err error) error {
	if transfer.IsStatus(err, http.StatusNotFound) {
		return fmt.Errorf("%w (%w)", ErrNotFound, err)
	}
	return err
}

// parseBool reads a truth value of an address; "" is the default.
func parseBool(name, text string, otherwise bool) (bool, error) {
	if text == "" {
		return otherwise, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s must be true or false, not %q", name, text)
	}
	return v, nil
}
