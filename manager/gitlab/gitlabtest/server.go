// Package gitlabtest is a strict GitLab for runners: the runner API, with a queue of jobs, their logs, states and artifacts.
//
// It refuses what GitLab refuses, and what GitLab takes although its documents say otherwise. Server.Break makes it fail in the ways in which GitLab and what is
// before it fail. The tests of the manager use it, and `rung dev gitlab` serves a folder with it.
//
// Source: lib/api/ci/runner.rb, lib/api/helpers/runner.rb and Ci::AppendBuildTraceService in GitLab.
package gitlabtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/manager/gitlab"
)

// Options are those of a Server.
type Options struct {
	// LongPoll is how long a request for a job is held when there is none; 0 answers at once.
	LongPoll time.Duration
	// Holds says that a request is held that long also when its runner has not heard of the latest change. GitLab answers that at once, and the
	// runner rests before it asks again: tests with many jobs would mostly wait for that.
	Holds bool
	// Watched and Unwatched are how often GitLab wants to hear of a job; 0 is 3 and 60 seconds.
	Watched, Unwatched int
	// Migrations is how often a final update is answered with 202 before it is taken: GitLab moves the log to its storage meanwhile.
	Migrations int
	// Requeue is how long a job that was handed out may wait for its runner to say that it runs, before it goes to another; 0 is for ever.
	Requeue time.Duration
	// MaxLog is the most bytes of a log, after which the job is dropped; 0 is 100 MB.
	MaxLog int64
	// KeepLog is how much of a log is kept, in bytes from its beginning; 0 is all. The rest is checked as it comes, as all is.
	KeepLog int
	// Accept says why an artifact is refused as it is uploaded, with 400 as GitLab does; nil takes all.
	Accept func(Artifact) error
	// Registration is the token that makes runners; empty is RegistrationToken.
	Registration string
}

// Server is a GitLab. Its methods are safe for concurrent use.
type Server struct {
	opts Options
	mux  *http.ServeMux

	mu       sync.Mutex
	changed  chan struct{} // is closed and replaced whenever anything changes
	runners  map[string]*Runner
	jobs     map[int64]*Job
	queue    []*Job
	lastID   int64
	version  int // of the queue, for long polling
	breaks   []Breaker
	protocol []string // what clients did that GitLab would not take
}

// Runner is a runner as the server knows it.
type Runner struct {
	ID       int64
	Token    string
	Paused   bool
	Managers map[string]gitlab.Info // by system ID
	Expires  *time.Time
	legacy   bool // was made by a registration token
}

// RegistrationToken makes runners.
const RegistrationToken = "GR1348941registration" //nolint:gosec // of a test server

// New returns a server without runners and jobs. It is a http.Handler.
func New(o Options) *Server {
	if o.Watched == 0 {
		o.Watched = 3
	}
	if o.Unwatched == 0 {
		o.Unwatched = 60
	}
	if o.MaxLog == 0 {
		o.MaxLog = 100 << 20
	}
	if o.Registration == "" {
		o.Registration = RegistrationToken
	}
	s := &Server{opts: o, changed: make(chan struct{}), runners: map[string]*Runner{}, jobs: map[int64]*Job{}, lastID: 1000}
	s.mux = http.NewServeMux()
	for pattern, h := range map[string]http.HandlerFunc{
		"POST /api/v4/runners":                            s.register,
		"DELETE /api/v4/runners":                          s.unregister,
		"POST /api/v4/runners/verify":                     s.verify,
		"DELETE /api/v4/runners/managers":                 s.unregisterManager,
		"POST /api/v4/runners/reset_authentication_token": s.resetToken,
		"GET /api/v4/runners/router/discovery":            func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotImplemented, "not enabled") },
		"POST /api/v4/jobs/request":                       s.requestJob,
		"PUT /api/v4/jobs/{id}":                           s.updateJob,
		"PATCH /api/v4/jobs/{id}/trace":                   s.patchTrace,
		"POST /api/v4/jobs/{id}/artifacts":                s.uploadArtifacts,
		"GET /api/v4/jobs/{id}/artifacts":                 s.downloadArtifacts,
	} {
		s.mux.HandleFunc(pattern, h)
	}
	return s
}

// ServeHTTP answers a request, or breaks as Break says.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	breaks := slices.Clone(s.breaks)
	s.mu.Unlock()
	for _, broken := range breaks {
		if broken(w, r, s.mux) {
			return
		}
	}
	w.Header().Set("X-Request-Id", "server-"+r.Header.Get("X-Request-Id"))
	s.mux.ServeHTTP(w, r)
}

// Breaker answers a request in the place of a server that works, and returns whether it did.
type Breaker func(w http.ResponseWriter, r *http.Request, works http.Handler) bool

// Break lets f see requests first. The function that is returned ends that.
func (s *Server) Break(f Breaker) (repair func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := false
	s.breaks = append(s.breaks, func(w http.ResponseWriter, r *http.Request, works http.Handler) bool {
		s.mu.Lock()
		over := done
		s.mu.Unlock()
		return !over && f(w, r, works)
	})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		done = true
	}
}

// Fail answers the next n requests with this endpoint, as "PATCH /jobs/{id}/trace", with a status. More headers may follow, as name and value.
func (s *Server) Fail(n int, endpoint string, status int, header ...string) {
	next(s, n, endpoint, func(w http.ResponseWriter) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		refuse(w, status, "broken on purpose")
	})
}

// Drop closes the connection of the next n requests with this endpoint without an answer. They have no effect.
func (s *Server) Drop(n int, endpoint string) {
	next(s, n, endpoint, func(http.ResponseWriter) { panic(http.ErrAbortHandler) })
}

// next lets answer have the next n requests with an endpoint.
func next(s *Server, n int, endpoint string, answer func(http.ResponseWriter)) {
	s.Break(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if r.Method+" "+gitlab.Endpoint(strings.TrimPrefix(r.URL.Path, "/api/v4")) != endpoint {
			return false
		}
		s.mu.Lock()
		n--
		meant := n >= 0
		s.mu.Unlock()
		if meant {
			answer(w)
		}
		return meant
	})
}

// Violations are what clients did against the protocol, in order.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.protocol)
}

// violation records what a client did against the protocol. The caller holds the lock.
func (s *Server) violation(format string, args ...any) {
	s.protocol = append(s.protocol, fmt.Sprintf(format, args...))
}

// change tells all who wait. The caller holds the lock.
func (s *Server) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Changed is closed when something changes next: a job, the queue, a runner.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// until waits until done returns true, which is called with the lock held.
func (s *Server) until(ctx context.Context, done func() bool) error {
	for {
		s.mu.Lock()
		ok, changed := done(), s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// NewRunner makes a runner and returns its authentication token.
func (s *Server) NewRunner() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newRunner("glrt-", false).Token
}

// AddRunner makes a runner with an authentication token of the caller's.
func (s *Server) AddRunner(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	s.runners[token] = &Runner{ID: s.lastID, Token: token, Managers: map[string]gitlab.Info{}}
	s.change()
}

func (s *Server) newRunner(prefix string, legacy bool) *Runner {
	s.lastID++
	r := &Runner{ID: s.lastID, Token: prefix + fmt.Sprintf("%020d", s.lastID), Managers: map[string]gitlab.Info{}, legacy: legacy}
	s.runners[r.Token] = r
	s.change()
	return r
}

// Runner is a copy of the runner with this token; nil if there is none.
func (s *Server) Runner(token string) *Runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runners[token]
	if r == nil {
		return nil
	}
	copied := *r
	copied.Managers = maps.Clone(r.Managers)
	return &copied
}

// Expire sets when the token of a runner ends.
func (s *Server) Expire(token string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runners[token]; r != nil {
		r.Expires = &at
	}
}

var systemID = regexp.MustCompile(`^[sr]_[0-9a-zA-Z]{12}$`)

// runnerRequest is what requests for runners have in common.
type runnerRequest struct {
	Token      string          `json:"token"`
	SystemID   string          `json:"system_id"`
	LastUpdate string          `json:"last_update"`
	Info       gitlab.Info     `json:"info"`
	Session    *gitlab.Session `json:"session"`
}

// runner reads a request of a runner. It answers by itself, and returns nil, if the request is not one. It returns with the lock held otherwise.
func (s *Server) runner(w http.ResponseWriter, r *http.Request) (*Runner, *runnerRequest) {
	var req runnerRequest
	if !readJSON(w, r, &req) {
		return nil, nil
	}
	s.mu.Lock()
	known := s.runners[req.Token]
	if header := r.Header.Get("RUNNER-TOKEN"); header != req.Token {
		s.violation("%s %s: the header RUNNER-TOKEN is not the token of the body", r.Method, r.URL.Path)
	}
	if req.SystemID != "" && !systemID.MatchString(req.SystemID) {
		s.violation("%s %s: system_id is %q", r.Method, r.URL.Path, req.SystemID)
	}
	if known == nil || known.Expires != nil && known.Expires.Before(time.Now()) {
		s.mu.Unlock()
		refuse(w, http.StatusForbidden, "403 Forbidden")
		return nil, nil
	}
	return known, &req
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var req gitlab.Registration
	if !readJSON(w, r, &req) {
		return
	}
	if req.Token != s.opts.Registration {
		refuse(w, http.StatusForbidden, "403 Forbidden - invalid token supplied")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	made := s.newRunner("", true)
	made.Paused = req.Paused
	answerJSON(w, http.StatusCreated, gitlab.Registered{ID: made.ID, Token: made.Token, Expires: made.Expires})
}

func (s *Server) verify(w http.ResponseWriter, r *http.Request) {
	known, req := s.runner(w, r)
	if known == nil {
		return
	}
	defer s.mu.Unlock()
	known.Managers[req.SystemID] = req.Info
	answerJSON(w, http.StatusOK, gitlab.Registered{ID: known.ID, Token: known.Token, Expires: known.Expires})
}

func (s *Server) unregister(w http.ResponseWriter, r *http.Request) {
	known, _ := s.runner(w, r)
	if known == nil {
		return
	}
	defer s.mu.Unlock()
	delete(s.runners, known.Token)
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) unregisterManager(w http.ResponseWriter, r *http.Request) {
	known, req := s.runner(w, r)
	if known == nil {
		return
	}
	defer s.mu.Unlock()
	if _, ok := known.Managers[req.SystemID]; !ok {
		refuse(w, http.StatusNotFound, "404 Not Found")
		return
	}
	delete(known.Managers, req.SystemID)
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) resetToken(w http.ResponseWriter, r *http.Request) {
	known, _ := s.runner(w, r)
	if known == nil {
		return
	}
	defer s.mu.Unlock()
	delete(s.runners, known.Token)
	s.lastID++
	known.Token = "glrt-" + fmt.Sprintf("%020d", s.lastID)
	if known.Expires != nil {
		later := time.Now().Add(24 * time.Hour)
		known.Expires = &later
	}
	s.runners[known.Token] = known
	answerJSON(w, http.StatusCreated, gitlab.Registered{ID: known.ID, Token: known.Token, Expires: known.Expires})
}

// readJSON reads the body of a request; it answers by itself, and returns false, if that is not possible.
func readJSON(w http.ResponseWriter, r *http.Request, into any) bool {
	if r.Header.Get("Content-Type") != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "the body must be JSON")
		return false
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(into); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return false
	}
	return true
}

func answerJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that left hears nothing
}

func refuse(w http.ResponseWriter, status int, text string) {
	answerJSON(w, status, map[string]string{"message": text})
}

func answerText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

// number is the {id} of a path, or 0.
func number(r *http.Request) int64 {
	n, _ := strconv.ParseInt(r.PathValue("id"), 10, 64)
	return n
}
