// Package distribution is a client for one repository of a registry, following the OCI distribution specification: manifests, blobs and
// tags, with authentication if the registry requires it. Everything that a registry sends is verified against its digest.
package distribution

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"unicode"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive/download"
)

// Limits of what a registry may answer.
const (
	MaxManifest = 4 << 20 // of one manifest, in bytes
	maxTags     = 100_000
	maxSaid     = 200 // of an error's text, in bytes
)

// Options is where a repository is, and how to get in.
type Options struct {
	At          *source.Location // its URL is "registry/repository"
	Credentials Credentials      // may be nil
	Policy      download.Policy
}

// Repository is a repository of a registry. It is safe for concurrent use.
type Repository struct {
	Registry, Name string // as they were named
	base           url.URL
	client         *client
	policy         download.Policy
}

// Docker's own registry goes by several names, and its official images have no namespace.
const (
	dockerHub     = "docker.io"
	dockerHubHost = "registry-1.docker.io"
)

var (
	repositoryPattern = lazyregexp.New(`^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*$`)
	tagPattern        = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
)

// IsTag reports whether a text can be a tag.
func IsTag(text string) bool { return tagPattern.MatchString(text) }

// Split divides "registry/repository". The error does not repeat what it cannot read.
func Split(text string) (registry, name string, err error) {
	registry, name, ok := strings.Cut(strings.TrimPrefix(text, "oci://"), "/")
	if at := strings.LastIndexByte(registry, '@'); at >= 0 {
		registry = registry[at+1:] // credentials belong into Docker's configuration
	}
	u, uerr := url.Parse("https://" + registry)
	if !ok || uerr != nil || registry == "" || u.Host != registry || !repositoryPattern.MatchString(name) {
		return "", "", errors.New("it is not registry/repository, with a repository in lower case")
	}
	if registry == "index.docker.io" || registry == dockerHubHost {
		registry = dockerHub
	}
	if registry == dockerHub && !strings.Contains(name, "/") {
		name = "library/" + name
	}
	return registry, name, nil
}

// Open prepares to speak to a repository. A registry on this machine may speak plain HTTP.
func Open(ctx context.Context, o Options) (*Repository, error) {
	registry, name, err := Split(o.At.URL)
	if err != nil {
		return nil, &source.DeniedError{What: o.At.Name, Why: err.Error()}
	}
	r := &Repository{Registry: registry, Name: name, policy: o.Policy}
	r.base = url.URL{Scheme: "https", Host: registry}
	if registry == dockerHub {
		r.base.Host = dockerHubHost
	}
	safe := download.Client(o.At.Access.HTTP)
	r.client = &client{http: safe, host: r.base.Host, login: func(ctx context.Context) (string, string, error) {
		if access := o.At.Access; access.Username != "" || access.Password != "" {
			return access.Username, access.Password, nil
		}
		if o.Credentials == nil {
			return "", "", nil
		}
		user, password, _, err := o.Credentials.Registry(ctx, registry, name)
		return user, password, err
	}}
	if o.At.Access.PlainHTTP || loopback(r.base.Hostname()) && r.speaksPlainHTTP(ctx, safe) {
		r.base.Scheme = "http"
	}
	return r, nil
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// speaksPlainHTTP finds out whether what listens there answers to TLS.
func (r *Repository) speaksPlainHTTP(ctx context.Context, client *http.Client) bool {
	watch := r.policy.Watch(ctx)
	defer watch.Stop()
	req := r.request(watch.Context(), http.MethodGet, "/v2/", nil)
	resp, err := client.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	return errors.Is(err, http.ErrSchemeMismatch)
}

// request makes a request for a path of the registry.
func (r *Repository) request(ctx context.Context, method, path string, body []byte) *http.Request {
	u := r.base
	u.Path = path
	req := (&http.Request{Method: method, URL: &u, Host: u.Host, Header: http.Header{}}).WithContext(ctx)
	req.Header.Set("User-Agent", "step-runner")
	if body != nil {
		req.ContentLength = int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Body, _ = req.GetBody()
	}
	return req
}

// path of something of the repository: "manifests", "blobs" or "tags".
func (r *Repository) path(kind, what string) string { return "/v2/" + r.Name + "/" + kind + "/" + what }

// call sends a request until it works, and gives the answer to use. The error of a refused request is a
// *download.StatusError.
func (r *Repository) call(ctx context.Context, request func(context.Context) (*http.Request, error), use func(*http.Response) error) error {
	return r.policy.Do(ctx, func(ctx context.Context) (bool, error) {
		watch := r.policy.Watch(ctx)
		defer watch.Stop()
		req, err := request(watch.Context())
		if err != nil {
			return false, err
		}
		resp, err := r.client.Do(req)
		if err != nil {
			return false, watch.Err(download.Plain(err))
		}
		defer resp.Body.Close()
		resp.Body = struct {
			io.Reader
			io.Closer
		}{watch.Reader(resp.Body), resp.Body}
		if status := download.Status(resp); status != nil {
			status.Said = said(resp.Body)
			return false, status
		}
		return false, use(resp)
	})
}

// said returns the registry's own words for an error.
func said(body io.Reader) string {
	var answer struct {
		Errors []struct{ Message string } `json:"errors"`
	}
	if json.NewDecoder(io.LimitReader(body, 64<<10)).Decode(&answer) != nil || len(answer.Errors) == 0 {
		return ""
	}
	text := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, answer.Errors[0].Message)
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return text
}

// accept are the manifests that can be read.
var accept = strings.Join([]string{MediaTypeIndex, MediaTypeManifest, DockerIndex, DockerManifest}, ", ")

// Resolve returns the digest of the manifest that a tag names.
func (r *Repository) Resolve(ctx context.Context, reference string) (Digest, error) {
	var found Digest
	err := r.call(ctx, func(ctx context.Context) (*http.Request, error) {
		req := r.request(ctx, http.MethodHead, r.path("manifests", reference), nil)
		req.Header.Set("Accept", accept)
		return req, nil
	}, func(resp *http.Response) error {
		found = Digest(resp.Header.Get("Docker-Content-Digest"))
		return nil
	})
	if err != nil || found.Validate() == nil {
		return found, err
	}
	m, err := r.Manifest(ctx, reference) // a registry need not say it
	if err != nil {
		return "", err
	}
	return DigestOf(m.Data), nil
}

// Manifest is a manifest as the registry has it.
type Manifest struct {
	MediaType string
	Data      []byte
}

// DigestError says that a registry sent something else.
type DigestError struct {
	What      string
	Want, Got string
}

func (e *DigestError) Error() string {
	return fmt.Sprintf("%s is not the expected one: expected %s, got %s", e.What, e.Want, e.Got)
}

// Manifest returns the manifest with a tag, or a digest that it is held against.
func (r *Repository) Manifest(ctx context.Context, reference string) (*Manifest, error) {
	m := &Manifest{}
	err := r.call(ctx, func(ctx context.Context) (*http.Request, error) {
		req := r.request(ctx, http.MethodGet, r.path("manifests", reference), nil)
		req.Header.Set("Accept", accept)
		return req, nil
	}, func(resp *http.Response) (err error) {
		if m.Data, err = io.ReadAll(io.LimitReader(resp.Body, MaxManifest+1)); err != nil {
			return err
		}
		if len(m.Data) > MaxManifest {
			return &download.TooLargeError{Limit: MaxManifest}
		}
		m.MediaType, _, _ = mime.ParseMediaType(resp.Header.Get("Content-Type"))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if want := Digest(reference); want.Validate() == nil {
		if got := DigestOf(m.Data); got != want {
			return nil, &DigestError{"the manifest", want.String(), got.String()}
		}
	}
	// What a manifest says of itself counts more than a header, which its digest is not about.
	var self struct {
		MediaType string `json:"mediaType"`
	}
	if json.Unmarshal(m.Data, &self) == nil && self.MediaType != "" {
		m.MediaType = self.MediaType
	}
	return m, nil
}

// Blob downloads a blob to path. A partial download is resumed.
func (r *Repository) Blob(ctx context.Context, d Descriptor, path string, meter *download.Meter) error {
	if err := d.Digest.Validate(); err != nil {
		return &DigestError{"the digest of a layer", "one like sha256:…", fmt.Sprintf("%.80q", d.Digest)}
	}
	if d.Size < 0 {
		return &DigestError{"the size of the layer " + d.Digest.String(), "one", fmt.Sprint(d.Size)}
	}
	info, err := os.Stat(path)
	before := err == nil && info.Size() > 0
	if before && matches(path, d) {
		return nil
	}
	u := r.base
	u.Path = r.path("blobs", d.Digest.String())
	for {
		req := &download.Request{URL: &u, Do: r.client.Do, Immutable: true, MaxSize: d.Size, Policy: r.policy, Meter: meter}
		err := req.To(ctx, path)
		var large *download.TooLargeError
		if errors.As(err, &large) {
			err = &DigestError{"the size of the layer " + d.Digest.String(), fmt.Sprintf("%d bytes", d.Size), "more"}
		}
		if err == nil && matches(path, d) {
			return nil
		}
		if err == nil {
			got := sizeAndDigest(path, d)
			_ = download.Remove(path)
			err = &DigestError{"the layer " + d.Digest.String(), fmt.Sprintf("%d bytes", d.Size), got}
		}
		var wrong *DigestError
		if !before || !errors.As(err, &wrong) {
			return err
		}
		_ = download.Remove(path)
		before = false // what was there may have been the reason
	}
}

func sizeAndDigest(path string, d Descriptor) string {
	f, err := os.Open(path)
	if err != nil {
		return "nothing"
	}
	defer f.Close()
	info, err := f.Stat()
	got, derr := digestReader(f)
	if err != nil || derr != nil {
		return "nothing"
	}
	return fmt.Sprintf("%d bytes with the digest %s", info.Size(), got)
}

// matches reports whether a file is what a descriptor describes.
func matches(path string, d Descriptor) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() != d.Size {
		return false
	}
	got, err := digestReader(f)
	return err == nil && got == d.Digest
}

// Tags returns the tags of the repository; none where it does not exist.
func (r *Repository) Tags(ctx context.Context) ([]string, error) {
	var tags []string
	next := &url.URL{Path: r.path("tags", "list")}
	for next != nil {
		page := next
		err := r.call(ctx, func(ctx context.Context) (*http.Request, error) {
			req := r.request(ctx, http.MethodGet, page.Path, nil)
			req.URL.RawQuery = page.RawQuery
			return req, nil
		}, func(resp *http.Response) error {
			var list struct{ Tags []string }
			if err := json.NewDecoder(io.LimitReader(resp.Body, MaxManifest)).Decode(&list); err != nil {
				return fmt.Errorf("reading the list of tags: %w", err)
			}
			tags, next = append(tags, list.Tags...), nextPage(resp)
			return nil
		})
		var status *download.StatusError
		if errors.As(err, &status) && status.Code == http.StatusNotFound {
			return tags, nil
		}
		if err != nil {
			return nil, err
		}
		if len(tags) > maxTags {
			return nil, fmt.Errorf("the repository has more than %d tags", maxTags)
		}
		if next != nil && *next == *page {
			return tags, nil
		}
	}
	return tags, nil
}

// nextPage reads a Link header. Only the path and query of it count: the host stays the registry.
func nextPage(resp *http.Response) *url.URL {
	link, params, _ := strings.Cut(resp.Header.Get("Link"), ">")
	if !strings.HasPrefix(link, "<") || !strings.Contains(params, `rel="next"`) {
		return nil
	}
	u, err := resp.Request.URL.Parse(link[1:])
	if err != nil {
		return nil
	}
	return &url.URL{Path: u.Path, RawQuery: u.RawQuery}
}
