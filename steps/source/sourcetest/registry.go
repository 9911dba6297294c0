package sourcetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Auth is how a Registry lets in.
type Auth int

// The ways to get in.
const (
	Open      Auth = iota // everybody
	Basic                 // with name and password in every request
	Token                 // with a token that is given for name and password
	Anonymous             // with a token that everybody gets for reading
)

// Registry is a container registry on this machine, in memory.
type Registry struct {
	*httptest.Server
	Auth               Auth
	Username, Password string
	// Intercept, when it is set, answers a request itself and returns true, or leaves it and returns false.
	Intercept func(w http.ResponseWriter, r *http.Request) bool

	handler  http.Handler
	mu       sync.Mutex
	requests []*http.Request
}

// NewRegistry starts a registry, with TLS or without. Set its fields before the first request, and close it.
func NewRegistry(tls bool) *Registry {
	r := &Registry{handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(r.serve))
	r.Config.ErrorLog = log.New(io.Discard, "", 0) // whoever tries TLS first makes it complain
	if tls {
		r.StartTLS()
	} else {
		r.Start()
	}
	return r
}

// Protect lets in only who has a name and a password. Unlike the fields it can be used when another process is the first to ask.
func (r *Registry) Protect(auth Auth, username, password string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Auth, r.Username, r.Password = auth, username, password
}

// Host is how references name the registry: "127.0.0.1:port".
func (r *Registry) Host() string { return r.Listener.Addr().String() }

// Requests returns what was asked for so far.
func (r *Registry) Requests() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*http.Request(nil), r.requests...)
}

// Count returns how many requests had a method, and a path with a part in it.
func (r *Registry) Count(method, part string) int {
	n := 0
	for _, req := range r.Requests() {
		if req.Method == method && strings.Contains(req.URL.Path, part) {
			n++
		}
	}
	return n
}

// token is what the registry gives and takes.
const token = "a-token-of-the-registry"

func (r *Registry) serve(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.requests = append(r.requests, req.Clone(req.Context()))
	auth, wantUser, wantPassword := r.Auth, r.Username, r.Password
	r.mu.Unlock()
	if r.Intercept != nil && r.Intercept(w, req) {
		return
	}
	user, password, _ := req.BasicAuth()
	known := user == wantUser && password == wantPassword
	if req.URL.Path == "/token" {
		if req.FormValue("grant_type") == "refresh_token" {
			known = req.FormValue("refresh_token") == wantPassword
		}
		giveToken(w, req, known, auth == Anonymous)
		return
	}
	switch {
	case auth == Basic && !known:
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
	case (auth == Token || auth == Anonymous) && req.Header.Get("Authorization") != "Bearer "+token+scopeOf(req):
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="test",scope="%s"`, r.URL, scopeOf(req)))
	default:
		r.handler.ServeHTTP(w, req)
		return
	}
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
}

func scopeOf(req *http.Request) string {
	_, rest, _ := strings.Cut(req.URL.Path, "/v2/")
	for _, end := range []string{"/manifests/", "/blobs/", "/tags/"} {
		if name, _, found := strings.Cut(rest, end); found {
			if req.Method == http.MethodGet || req.Method == http.MethodHead {
				return "repository:" + name + ":pull"
			}
			return "repository:" + name + ":pull,push"
		}
	}
	return ""
}

// giveToken gives a token to who is known, and for reading to everybody where that is so.
func giveToken(w http.ResponseWriter, req *http.Request, known, anonymous bool) {
	scope := req.FormValue("scope")
	if !known && (!anonymous || strings.HasSuffix(scope, "push")) {
		http.Error(w, "who are you", http.StatusUnauthorized)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"token": token + scope})
}

// PutBlob stores a blob, whatever the registry asks of others.
func (r *Registry) PutBlob(repository, mediaType string, data []byte) (ocispec.Descriptor, error) {
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	path := "/v2/" + repository + "/blobs/uploads/?digest=" + url.QueryEscape(d.Digest.String())
	return d, r.do(http.MethodPost, path, "application/octet-stream", data)
}

// PutManifest stores a manifest or an index under a tag, and returns its descriptor.
func (r *Registry) PutManifest(repository, tag, mediaType string, manifest any) (ocispec.Descriptor, error) {
	data, err := json.Marshal(manifest)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	if tag == "" {
		tag = d.Digest.String()
	}
	return d, r.do(http.MethodPut, "/v2/"+repository+"/manifests/"+tag, mediaType, data)
}

// PutImage stores a manifest with layers that are stored already. An empty config type is that of images.
func (r *Registry) PutImage(repository, tag, configType string, layers ...ocispec.Descriptor) (ocispec.Descriptor, error) {
	if configType == "" {
		configType = ocispec.MediaTypeImageConfig
	}
	config, err := r.PutBlob(repository, configType, []byte(`{"rootfs":{"type":"layers","diff_ids":[]}}`))
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	return r.PutManifest(repository, tag, ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: layers,
	})
}

// PutIndex stores an index of manifests that are stored already.
func (r *Registry) PutIndex(repository, tag string, entries ...ocispec.Descriptor) (ocispec.Descriptor, error) {
	return r.PutManifest(repository, tag, ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: entries,
	})
}

// do sends a request past everything that is for others.
func (r *Registry) do(method, path, contentType string, body []byte) error {
	req := httptest.NewRequest(method, path, bytes.NewReader(body))
	req.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	if w.Code >= 300 {
		return fmt.Errorf("the registry answered %d: %s", w.Code, w.Body)
	}
	return nil
}
