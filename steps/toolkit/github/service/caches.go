package service

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/steps/toolkit/github/service/blob"
	"github.com/rungci/rung/steps/toolkit/github/service/cache"
)

// caches is the service of caches, in both of its protocols: github.actions.results.api.v1.CacheService, and artifactcache before it.
// Scopes are simpler than on GitHub: all branches of a repository see the same caches.
type caches struct {
	door    door
	folder  cache.Folder
	uploads *blob.Store
	mode    string // Options.CacheMode
	scope   string // the ref of the job, which the first protocol names

	mu           sync.Mutex
	pending      map[cacheName]*blob.Upload
	reservations map[int64]cacheName // the first protocol's numbers
}

type cacheName struct{ key, version string }

type cacheEntry struct {
	Key         string    `json:"key"`
	Version     string    `json:"version"`
	RestoreKeys []string  `json:"restore_keys"`
	Size        int64Text `json:"size_bytes"`
}

type cacheAnswer struct {
	OK          bool       `json:"ok"`
	UploadURL   string     `json:"signed_upload_url,omitempty"`
	DownloadURL string     `json:"signed_download_url,omitempty"`
	MatchedKey  string     `json:"matched_key,omitempty"`
	ID          *int64Text `json:"entry_id,omitempty"`
}

func (s *caches) routes(mux *http.ServeMux) {
	const service = "CacheService"
	twirp(s.door, mux, service, "CreateCacheEntry", s.create)
	twirp(s.door, mux, service, "FinalizeCacheEntryUpload", s.finalize)
	twirp(s.door, mux, service, "GetCacheEntryDownloadURL", s.find)
	mux.HandleFunc("GET /blob/cache/{name}/{file}", s.serve)

	const first = "/_apis/artifactcache/"
	mux.HandleFunc("GET "+first+"cache", s.door.withToken(s.findFirst))
	mux.HandleFunc("GET "+first+"caches", s.door.withToken(s.listFirst))
	mux.HandleFunc("POST "+first+"caches", s.door.withToken(s.reserveFirst))
	mux.HandleFunc("PATCH "+first+"caches/{id}", s.door.withToken(s.uploadFirst))
	mux.HandleFunc("POST "+first+"caches/{id}", s.door.withToken(s.commitFirst))
}

// begin makes an upload for a cache that is not there yet.
func (s *caches) begin(name cacheName) (*blob.Upload, error) {
	if err := cache.Check(name.key, name.version); err != nil {
		return nil, refuse("invalid_argument", "%v", err)
	}
	if mode := s.mode; mode == "none" || mode == "read" {
		return nil, refuse("permission_denied", "the job's cache-mode is %s: it saves no caches", mode)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending[name] != nil || s.folder.Has(name.key, name.version) {
		return nil, refuse("already_exists", "%v", cache.ErrExists)
	}
	upload, err := s.uploads.Begin()
	if err == nil {
		s.pending[name] = upload
	}
	return upload, err
}

// end takes an upload that is complete, and has as many bytes as its client says, into the folder.
func (s *caches) end(name cacheName, size int64) (cache.Entry, error) {
	s.mu.Lock()
	upload := s.pending[name]
	delete(s.pending, name)
	s.mu.Unlock()
	if upload == nil {
		return cache.Entry{}, refuse("not_found", "no upload of a cache %q was begun", name.key)
	}
	defer upload.Drop()
	content, err := upload.Content()
	if err == nil && content.Size != size {
		err = blob.ErrIncomplete
	}
	if err != nil {
		return cache.Entry{}, refuse("failed_precondition", "cache %q: %v: %d bytes came of %d", name.key, err, content.Size, size)
	}
	entry, err := s.folder.Add(name.key, name.version, content.Path)
	if errors.Is(err, cache.ErrExists) { // another process was faster
		return entry, refuse("already_exists", "%v", err)
	}
	return entry, err
}

func (s *caches) create(request cacheEntry) (cacheAnswer, error) {
	upload, err := s.begin(cacheName{request.Key, request.Version})
	if err != nil {
		return cacheAnswer{}, err
	}
	return cacheAnswer{OK: true, UploadURL: s.door.signedURL(http.MethodPut, "/blob/upload/"+upload.ID+"/content")}, nil
}

func (s *caches) finalize(request cacheEntry) (cacheAnswer, error) {
	entry, err := s.end(cacheName{request.Key, request.Version}, int64(request.Size))
	if err != nil {
		return cacheAnswer{}, err
	}
	return cacheAnswer{OK: true, ID: (*int64Text)(&entry.ID)}, nil
}

func (s *caches) find(request cacheEntry) (cacheAnswer, error) {
	entry, ok, err := s.restorable(append([]string{request.Key}, request.RestoreKeys...), request.Version)
	if err != nil || !ok {
		return cacheAnswer{}, err
	}
	return cacheAnswer{OK: true, DownloadURL: s.url(entry), MatchedKey: entry.Key}, nil
}

// restorable finds a cache that the job may restore.
func (s *caches) restorable(keys []string, version string) (cache.Entry, bool, error) {
	if mode := s.mode; mode == "none" || mode == "write-only" {
		return cache.Entry{}, false, nil
	}
	return s.folder.Find(keys, version)
}

func (s *caches) url(e cache.Entry) string {
	return s.door.signedURL(http.MethodGet, "/blob/cache/"+e.Name()+"/content")
}

func (s *caches) serve(w http.ResponseWriter, r *http.Request) {
	if !s.door.isSigned(r, http.MethodGet) {
		blob.Fail(w, http.StatusForbidden, "AuthenticationFailed", "the signature of the address is wrong, or too old")
		return
	}
	e, ok := s.folder.ByName(r.PathValue("name"))
	if !ok {
		blob.Fail(w, http.StatusNotFound, "BlobNotFound", "the cache is gone: there was no more room for it")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	serveFile(w, r, s.folder.Path(e))
}

// The first protocol, which @actions/cache speaks where ACTIONS_CACHE_SERVICE_V2 is not set.

type firstCache struct {
	Key      string     `json:"cacheKey"`
	Version  string     `json:"cacheVersion"`
	Scope    string     `json:"scope"`
	Created  *time.Time `json:"creationTime,omitempty"`
	Location string     `json:"archiveLocation,omitempty"`
}

func (s *caches) describeFirst(e cache.Entry) firstCache {
	return firstCache{Key: e.Key, Version: e.Version, Scope: s.scope, Created: &e.Created}
}

func (s *caches) findFirst(w http.ResponseWriter, r *http.Request) {
	keys := strings.Split(r.URL.Query().Get("keys"), ",")
	entry, ok, err := s.restorable(keys, r.URL.Query().Get("version"))
	switch {
	case err != nil:
		writeFirstError(w, err)
	case !ok:
		w.WriteHeader(http.StatusNoContent)
	default:
		answer := s.describeFirst(entry)
		answer.Location = s.url(entry)
		writeJSON(w, http.StatusOK, answer)
	}
}

func (s *caches) listFirst(w http.ResponseWriter, r *http.Request) {
	all, err := s.folder.List()
	if err != nil {
		writeFirstError(w, err)
		return
	}
	found := []firstCache{}
	for _, e := range all {
		if strings.HasPrefix(e.Key, r.URL.Query().Get("key")) {
			found = append(found, s.describeFirst(e))
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"totalCount": len(found), "artifactCaches": found})
}

func (s *caches) reserveFirst(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Key     string `json:"key"`
		Version string `json:"version"`
		Size    int64  `json:"cacheSize"`
	}
	err := readJSON(w, r, &request)
	if err == nil && request.Size > blob.MaxSize {
		err = refuse("invalid_argument", "cache size of %d bytes is over the limit of %d", request.Size, int64(blob.MaxSize))
	}
	name := cacheName{request.Key, request.Version}
	if err == nil {
		_, err = s.begin(name)
	}
	if err != nil {
		writeFirstError(w, err)
		return
	}
	s.mu.Lock()
	id := int64(len(s.reservations) + 1)
	s.reservations[id] = name
	s.mu.Unlock()
	writeJSON(w, http.StatusCreated, map[string]int64{"cacheId": id})
}

// reserved is the upload that an address of the first protocol is about.
func (s *caches) reserved(r *http.Request) (cacheName, *blob.Upload, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	name := s.reservations[id]
	upload := s.pending[name]
	if err != nil || upload == nil {
		return name, nil, refuse("not_found", "no cache with the number %q is reserved", r.PathValue("id"))
	}
	return name, upload, nil
}

func (s *caches) uploadFirst(w http.ResponseWriter, r *http.Request) {
	_, upload, err := s.reserved(r)
	var first, last int64
	if err == nil {
		if first, last, err = parseRange(r.Header.Get("Content-Range")); err == nil {
			err = upload.WriteRange(first, last, r.Body)
		}
	}
	if err != nil {
		writeFirstError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// parseRange reads "bytes 0-99/*".
func parseRange(text string) (first, last int64, err error) {
	bounds, _, _ := strings.Cut(strings.TrimPrefix(text, "bytes "), "/")
	from, to, _ := strings.Cut(bounds, "-")
	first, err1 := strconv.ParseInt(from, 10, 64)
	last, err2 := strconv.ParseInt(to, 10, 64)
	if errors.Join(err1, err2) != nil {
		return 0, 0, refuse("invalid_argument", "Content-Range is %q, and not like \"bytes 0-99/*\"", text)
	}
	return first, last, nil
}

func (s *caches) commitFirst(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Size int64 `json:"size"`
	}
	name, upload, err := s.reserved(r)
	if err == nil {
		err = readJSON(w, r, &request)
	}
	if err == nil {
		err = upload.CommitRanges(request.Size)
	}
	if err == nil {
		_, err = s.end(name, request.Size)
	}
	if err != nil {
		writeFirstError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func writeFirstError(w http.ResponseWriter, err error) {
	status, _ := blob.Status(err)
	var known *twirpError
	if errors.As(err, &known) {
		status = twirpStatus[known.Code]
	}
	writeJSON(w, status, map[string]string{"message": err.Error()})
}
