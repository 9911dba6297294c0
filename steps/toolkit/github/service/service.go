// Package service stands in for GitHub's servers in local jobs: artifacts (protocol version 4), caches (both protocols), OpenID Connect
// tokens, and the part of the REST API that the local repository can answer.
//
//	Start ──> Server on 127.0.0.1, one for a run
//	            │  guard      the Host header, the token, limits
//	            ├─ /twirp/…                artifacts and caches as @actions/artifact and @actions/cache ask for them
//	            ├─ /_apis/artifactcache/…  caches as @actions/cache asks with GITHUB_SERVER_URL elsewhere
//	            ├─ /blob/…                 contents, at addresses that are signed: what Azure's storage is on GitHub
//	            ├─ /oidc/token, /.well-known/…
//	            '─ /api/v3/…               package rest
//
// A server serves one job and knows one token of each kind; those of another job open nothing. Jobs of the same workflow run
// have their artifacts in the same folder (package artifact), and those of the same repository their caches (package cache).
//
// GitHub does not document these protocols, so they are implemented as the published clients speak them; e2e/actions runs those clients
// unmodified.
package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rungci/rung/steps/toolkit/github/service/artifact"
	"github.com/rungci/rung/steps/toolkit/github/service/blob"
	"github.com/rungci/rung/steps/toolkit/github/service/cache"
)

// Options are what a server is made of. Folders are made when the first file goes into them.
type Options struct {
	Artifacts string // the folder of the workflow run's artifacts
	Cache     string // the folder of caches (CacheFolder); other processes may use it at the same time
	WorkTree  string // a folder in the Git repository that the REST API answers from; "" has none
	Temp      string // where uploads wait until they are complete; "" is the system's
	// Record is the file in which requests that would have changed something on GitHub are recorded. "" keeps them in memory.
	Record string

	// GitHub holds the texts of the github context by their names there: repository, ref, ref_name, ref_type, sha, head_ref, base_ref,
	// workflow, workflow_ref, run_id, run_number, run_attempt, job, actor, event_name, event_path (the REST API reads the payload there), …
	GitHub map[string]string
	// Permissions are those of the job's token: "contents" -> "read", "write" or "none". Nil is DefaultPermissions. A permission that
	// is not in it is none, but for metadata.
	Permissions map[string]string
	// CacheMode is what the job may do with caches, as cache-mode of its workflow says it: "read", "write-only" or "none"; all else is all.
	CacheMode string
	// Saved is what Server.Save returned in another process of the same job; nil begins again.
	Saved []byte
	// Note tells the user a sentence, without a stop. Nil drops it.
	Note func(text string)
}

// CacheFolder is where caches of a repository are kept by default. Its name depends on the repository's name and on the folder
// that jobs run in, so that no project restores what another one saved.
func CacheFolder(repository, workDir string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a folder for the caches of actions: %w; set XDG_CACHE_HOME or HOME", err)
	}
	sum := sha256.Sum256([]byte(repository + "\x00" + workDir))
	return filepath.Join(dir, "rung", "actions-cache", hex.EncodeToString(sum[:16])), nil
}

// DefaultPermissions are what a job's token may do when its workflow does not say: GitHub's for new repositories.
func DefaultPermissions() map[string]string {
	return map[string]string{"contents": "read", "packages": "read"}
}

// Limits of requests.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 5 * time.Minute
	maxHeader     = 64 << 10 // bytes
	// closeGrace is how long Close waits for requests that are under way.
	closeGrace = 2 * time.Second
)

// Server is the services of one job, on loopback.
type Server struct {
	opts Options
	http http.Server
	door door

	uploads   *blob.Store
	artifacts artifacts
	caches    caches
	identity  identity
}

// Start begins to serve. The server runs until Close.
func Start(opts Options) (*Server, error) {
	if opts.Permissions == nil {
		opts.Permissions = DefaultPermissions()
	}
	if opts.Note == nil {
		opts.Note = func(string) {}
	}
	s := &Server{opts: opts}
	var saved *savedServer
	var err error
	if opts.Saved != nil {
		if saved, err = readSaved(opts.Saved); err != nil {
			return nil, err
		}
		s.door.tokens = saved.tokens()
	} else if s.door.tokens, err = newTokens(opts.GitHub["ref"]); err != nil {
		return nil, fmt.Errorf("making tokens for the services of actions: %w", err)
	}
	listener, err := listen(saved)
	if err != nil {
		return nil, fmt.Errorf("starting the services of actions: %w", err)
	}
	s.door.addr = listener.Addr().String()
	s.door.base = "http://" + s.door.addr
	s.uploads = blob.NewStore(opts.Temp)
	s.artifacts = artifacts{
		door: s.door, folder: artifact.Folder{Dir: opts.Artifacts}, uploads: s.uploads, facts: opts.GitHub, note: opts.Note,
		pending: map[string]*pendingArtifact{},
	}
	s.caches = caches{
		door: s.door, folder: cache.Folder{Dir: opts.Cache}, uploads: s.uploads, mode: opts.CacheMode, scope: opts.GitHub["ref"],
		pending: map[cacheName]*blob.Upload{}, reservations: map[int64]cacheName{},
	}
	s.identity.door, s.identity.facts, s.identity.granted = s.door, opts.GitHub, opts.Permissions["id-token"] == "write"
	s.http = http.Server{
		Handler:           s.door.guard(sync.OnceValue(s.routes)), // most actions ask for nothing, and should not wait for this
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0), // broken connections are their clients' to tell of
	}
	go func() { _ = s.http.Serve(listener) }() // returns when the server is closed
	return s, nil
}

// Close ends the server and removes uploads that nobody completed.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	return errors.Join(err, s.uploads.Close())
}

// Env returns the variables by which a process finds the services. A JavaScript or Docker action gets all of them; a script only
// those that scripts have on GitHub: the addresses of the API and, with id-token: write, of OpenID Connect.
// Permissions narrow those of the job, as in TokenFor.
func (s *Server) Env(action bool, permissions map[string]string) map[string]string {
	env := map[string]string{}
	if action {
		env["ACTIONS_RUNTIME_URL"], env["ACTIONS_RUNTIME_TOKEN"] = s.door.base+"/", s.door.tokens.runtime
		env["ACTIONS_RESULTS_URL"], env["ACTIONS_CACHE_URL"] = s.door.base+"/", s.door.base+"/"
		env["ACTIONS_CACHE_SERVICE_V2"] = "true"
	}
	if token := s.door.tokens.identityFor(permissions); token != "" && s.opts.Permissions["id-token"] == "write" {
		env["ACTIONS_ID_TOKEN_REQUEST_URL"] = s.door.base + "/oidc/token?api-version=2.0" // clients append "&audience=…"
		env["ACTIONS_ID_TOKEN_REQUEST_TOKEN"] = token
	}
	env["GITHUB_API_URL"], env["GITHUB_GRAPHQL_URL"] = s.door.base+apiPath, s.door.base+"/api/graphql"
	return env
}

// Token is GITHUB_TOKEN: what github.token and secrets.GITHUB_TOKEN read. It opens the API of Env, and nothing of GitHub's.
func (s *Server) Token() string { return s.door.tokens.github }

// TokenFor is a GITHUB_TOKEN that may do no more than the permissions say, and no more than the job may; nil does not narrow it.
func (s *Server) TokenFor(permissions map[string]string) string {
	return s.door.tokens.githubFor(permissions)
}

// Secrets are all tokens of the job, for masks.
func (s *Server) Secrets() []string {
	return []string{s.door.tokens.runtime, s.door.tokens.idToken, s.Token()}
}
