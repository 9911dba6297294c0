package service

import (
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/rungci/rung/steps/toolkit/github/service/artifact"
	"github.com/rungci/rung/steps/toolkit/github/service/blob"
)

// artifacts is the service of artifacts: github.actions.results.api.v1.ArtifactService.
type artifacts struct {
	door    door
	folder  artifact.Folder
	uploads *blob.Store
	facts   map[string]string // Options.GitHub
	note    func(text string)

	mu       sync.Mutex
	pending  map[string]*pendingArtifact // by name
	retained sync.Once                   // the word about retention was said
}

type pendingArtifact struct {
	upload    *blob.Upload
	mediaType string
}

// backendIDs are in every request, and have to be those of the token.
type backendIDs struct {
	Run string `json:"workflow_run_backend_id"`
	Job string `json:"workflow_job_run_backend_id"`
}

func (s *artifacts) checkIDs(ids backendIDs) error {
	if ids.Run != s.door.tokens.run || ids.Job != s.door.tokens.job {
		return refuse("permission_denied", "the token is not that of run %q, job %q", ids.Run, ids.Job)
	}
	return nil
}

type createArtifact struct {
	backendIDs
	Name      string     `json:"name"`
	ExpiresAt *time.Time `json:"expires_at"`
	Version   int        `json:"version"`
	MimeType  string     `json:"mime_type"`
}

type createdArtifact struct {
	OK        bool   `json:"ok"`
	UploadURL string `json:"signed_upload_url"`
}

type finalizeArtifact struct {
	backendIDs
	Name string    `json:"name"`
	Size int64Text `json:"size"`
	Hash string    `json:"hash"`
}

type artifactDone struct {
	OK bool      `json:"ok"`
	ID int64Text `json:"artifact_id"`
}

type listArtifacts struct {
	backendIDs
	Name *string    `json:"name_filter"`
	ID   *int64Text `json:"id_filter"`
}

type listedArtifact struct {
	backendIDs
	DatabaseID int64Text `json:"database_id"`
	Name       string    `json:"name"`
	Size       int64Text `json:"size"`
	CreatedAt  time.Time `json:"created_at"`
	Digest     string    `json:"digest"`
}

type listedArtifacts struct {
	Artifacts []listedArtifact `json:"artifacts"`
}

type namedArtifact struct {
	backendIDs
	Name string `json:"name"`
}

type artifactAddress struct {
	URL string `json:"signed_url"`
}

func (s *artifacts) routes(mux *http.ServeMux) {
	const service = "ArtifactService"
	twirp(s.door, mux, service, "CreateArtifact", s.create)
	twirp(s.door, mux, service, "FinalizeArtifact", s.finalize)
	twirp(s.door, mux, service, "ListArtifacts", s.list)
	twirp(s.door, mux, service, "GetSignedArtifactURL", s.url)
	twirp(s.door, mux, service, "DeleteArtifact", s.remove)
	mux.HandleFunc("POST /twirp/", s.door.withToken(func(w http.ResponseWriter, r *http.Request) {
		writeTwirpError(w, refuse("unimplemented", "%s is not served here", r.URL.Path))
	}))
	mux.HandleFunc("PUT /blob/upload/{id}/{name}", func(w http.ResponseWriter, r *http.Request) {
		upload := s.uploads.Find(r.PathValue("id"))
		if !s.door.isSigned(r, http.MethodPut) {
			blob.Fail(w, http.StatusForbidden, "AuthenticationFailed", "the signature of the address is wrong, or too old")
		} else if upload == nil {
			blob.Fail(w, http.StatusNotFound, "BlobNotFound", "this upload has ended")
		} else {
			blob.ServeUpload(w, r, upload)
		}
	})
	mux.HandleFunc("GET /blob/artifact/{artifact}/{file}", s.serve)
}

func (s *artifacts) create(request createArtifact) (createdArtifact, error) {
	if err := s.checkIDs(request.backendIDs); err != nil {
		return createdArtifact{}, err
	}
	if request.Version < 4 {
		return createdArtifact{}, refuse("invalid_argument", "artifacts of version %d are not served: use version 4 or later of the action", request.Version)
	}
	switch _, err := s.folder.Find(request.Name); {
	case errors.Is(err, artifact.ErrName):
		return createdArtifact{}, refuse("invalid_argument", "%v", err)
	case err == nil:
		return createdArtifact{}, refuse("already_exists", "%v", artifact.ErrExists)
	case !errors.Is(err, fs.ErrNotExist):
		return createdArtifact{}, err
	}
	if request.ExpiresAt != nil {
		s.retained.Do(func() {
			s.note("artifacts have no retention here: they stay until their folder is removed")
		})
	}
	upload, err := s.uploads.Begin()
	if err != nil {
		return createdArtifact{}, err
	}
	mediaType := request.MimeType
	if mediaType == "" {
		mediaType = artifact.Zip // clients before version 6 upload nothing else, and do not say so
	}
	s.mu.Lock()
	old := s.pending[request.Name]
	s.pending[request.Name] = &pendingArtifact{upload, mediaType}
	s.mu.Unlock()
	if old != nil {
		old.upload.Drop() // begun and not ended: the client tries again
	}
	return createdArtifact{OK: true, UploadURL: s.door.signedURL(http.MethodPut, "/blob/upload/"+upload.ID+"/content")}, nil
}

func (s *artifacts) finalize(request finalizeArtifact) (artifactDone, error) {
	if err := s.checkIDs(request.backendIDs); err != nil {
		return artifactDone{}, err
	}
	s.mu.Lock()
	pending := s.pending[request.Name]
	delete(s.pending, request.Name)
	s.mu.Unlock()
	if pending == nil {
		return artifactDone{}, refuse("not_found", "no upload of an artifact %q was begun", request.Name)
	}
	defer pending.upload.Drop()
	content, err := pending.upload.Content()
	if err != nil {
		return artifactDone{}, refuse("failed_precondition", "artifact %q: %v", request.Name, err)
	}
	digest := "sha256:" + content.SHA256
	if content.Size != int64(request.Size) || request.Hash != "" && request.Hash != digest {
		return artifactDone{}, refuse("invalid_argument", "artifact %q: %d bytes with %s were uploaded, and %d bytes with %s are said to be",
			request.Name, content.Size, digest, request.Size, request.Hash)
	}
	added, err := s.folder.Add(artifact.Artifact{
		Name: request.Name, Size: content.Size, Digest: digest, MediaType: pending.mediaType, Job: s.facts["job"],
	}, content.Path)
	switch {
	case errors.Is(err, artifact.ErrExists):
		err = refuse("already_exists", "%v", err)
	case errors.Is(err, artifact.ErrTooMany): // and not an internal error, after which clients try again and again
		err = refuse("failed_precondition", "%v", err)
	}
	return artifactDone{OK: err == nil, ID: int64Text(added.ID)}, err
}

func (s *artifacts) list(request listArtifacts) (listedArtifacts, error) {
	result := listedArtifacts{Artifacts: []listedArtifact{}}
	if err := s.checkIDs(request.backendIDs); err != nil {
		return result, err
	}
	all, err := s.folder.List()
	for _, a := range all {
		if request.Name != nil && *request.Name != a.Name || request.ID != nil && int64(*request.ID) != a.ID {
			continue
		}
		// Artifacts of other jobs are asked for with the IDs that are said here, and a token opens only its own.
		result.Artifacts = append(result.Artifacts, listedArtifact{request.backendIDs, int64Text(a.ID), a.Name, int64Text(a.Size), a.Created, a.Digest})
	}
	return result, err
}

// find returns one that is complete.
func (s *artifacts) find(request namedArtifact) (artifact.Artifact, error) {
	if err := s.checkIDs(request.backendIDs); err != nil {
		return artifact.Artifact{}, err
	}
	a, err := s.folder.Find(request.Name)
	if errors.Is(err, artifact.ErrName) {
		err = refuse("invalid_argument", "%v", err)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = refuse("not_found", "the run has no artifact %q", request.Name)
	}
	return a, err
}

func (s *artifacts) url(request namedArtifact) (artifactAddress, error) {
	a, err := s.find(request)
	if err != nil {
		return artifactAddress{}, err
	}
	return artifactAddress{s.addressOf(a)}, nil
}

func (s *artifacts) addressOf(a artifact.Artifact) string {
	return s.door.signedURL(http.MethodGet, fmt.Sprintf("/blob/artifact/%d/%s", a.ID, a.File()))
}

func (s *artifacts) remove(request namedArtifact) (artifactDone, error) {
	a, err := s.find(request)
	if err == nil {
		err = s.folder.Delete(a)
	}
	return artifactDone{OK: err == nil, ID: int64Text(a.ID)}, err
}

// byID finds an artifact by the text of its ID.
func (s *artifacts) byID(id string) (artifact.Artifact, bool) {
	all, err := s.folder.List()
	for _, a := range all {
		if err == nil && strconv.FormatInt(a.ID, 10) == id {
			return a, true
		}
	}
	return artifact.Artifact{}, false
}

func (s *artifacts) serve(w http.ResponseWriter, r *http.Request) {
	if !s.door.isSigned(r, http.MethodGet) {
		blob.Fail(w, http.StatusForbidden, "AuthenticationFailed", "the signature of the address is wrong, or too old")
		return
	}
	a, ok := s.byID(r.PathValue("artifact"))
	if !ok {
		blob.Fail(w, http.StatusNotFound, "BlobNotFound", "the artifact is gone")
		return
	}
	w.Header().Set("Content-Type", a.MediaType)
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": a.File()}))
	serveFile(w, r, s.folder.Path(a))
}

// serveFile answers with a file, or the range of it that is asked for.
func serveFile(w http.ResponseWriter, r *http.Request, path string) {
	f, err := os.Open(path)
	if err != nil {
		blob.Fail(w, http.StatusNotFound, "BlobNotFound", "the content is gone")
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		blob.Fail(w, http.StatusInternalServerError, "InternalError", err.Error())
		return
	}
	w.Header().Set("x-ms-blob-type", "BlockBlob")
	http.ServeContent(w, r, "", info.ModTime(), f)
}
