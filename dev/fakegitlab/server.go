// Package fakegitlab is a GitLab for one project: a folder with a .gitlab-ci.yml. It makes pipelines of it, hands their jobs to whatever runner
// asks, keeps what they leave, and shows all that on a page.
//
//	local/gitlab.Project ──> Pipeline: states, decided by gitlabci/pipeline ──> payload: what GitLab would send ──> gitlabtest.Server <── runners
//	dev/gitserver ─────────────> the sources of jobs                                                                    │
//	the page <── logs, artifacts ───────────────────────────────────────────────────────────────────────────────────────┘
//
// It is for trying things, by one person on one machine. What it does not do is in Missing, and pipelines that ask for it say so.
package fakegitlab

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/rungci/rung/dev/gitserver"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

// Options are those of a Server.
type Options struct {
	// Open makes the pipeline with a number, of the file as it is now.
	Open func(ctx context.Context, pipeline int) (*gitlab.Project, error)
	// Repository is the project's.
	Repository *repository.Repository
	// Folder is the server's own, for the repository that jobs get their sources from.
	Folder string
	// Env is the environment that git runs in.
	Env []string
	// URL is where runners and browsers reach the server, without a slash at its end.
	URL string
	// Secrets are values of `secrets:`, by name.
	Secrets map[string]string
	// WaitDelayed waits for delayed jobs, which otherwise start at once.
	WaitDelayed bool
	// Migrations is how often the end of a job is answered with 202 before it is taken.
	Migrations int
}

// Server is the GitLab. Its methods are safe for concurrent use.
type Server struct {
	opts Options
	api  *gitlabtest.Server
	git  *gitserver.Repository
	mux  *http.ServeMux
	// What opens which door: the page, and the runner API for jobs and for registrations.
	pageToken, runnerToken, registration string

	mu      sync.Mutex
	board   board
	jwks    any
	changed chan struct{}
	broken  error // why the last pipeline could not be made
}

// New makes a server without pipelines.
func New(ctx context.Context, o Options) (*Server, error) {
	git, err := gitserver.New(ctx, gitserver.Options{
		Folder: o.Repository.Root, Git: o.Repository.Git, ObjectFormat: o.Repository.ObjectFormat, Dir: filepath.Join(o.Folder, "project.git"), Env: o.Env,
	})
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts: o, git: git, changed: make(chan struct{}),
		pageToken: rand.Text(), runnerToken: "glrt-" + rand.Text(), registration: "GR1348941" + rand.Text(),
	}
	s.api = gitlabtest.New(gitlabtest.Options{LongPoll: longPoll, Watched: 1, Unwatched: 1, Registration: s.registration, Migrations: o.Migrations, Accept: accept})
	s.api.AddRunner(s.runnerToken)
	keys := gitlab.NewKeys(func(jwks any) { s.jwks = jwks }) // while a payload is made, with the lock held
	s.board = board{sender: &sender{Options: &s.opts, keys: keys}, api: s.api}
	s.routes()
	return s, nil
}

// longPoll is how long a runner waits for a job, as Workhorse lets it.
const longPoll = 50 * time.Second

// RunnerToken is the authentication token of the server's runner; RegistrationToken makes others.
func (s *Server) RunnerToken() string { return s.runnerToken }

// RegistrationToken makes runners.
func (s *Server) RegistrationToken() string { return s.registration }

// API is the runner API, to be broken on purpose.
func (s *Server) API() *gitlabtest.Server { return s.api }

// ServeHTTP answers runners, git and browsers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	s.mux.Handle("/api/v4/", s.api)
	project := "/" + string(s.opts.Repository.Project) + ".git"
	sources := map[string]http.HandlerFunc{"GET " + project + "/info/refs": s.ofJob(s.git.Info), "POST " + project + "/git-upload-pack": s.ofJob(s.git.UploadPack)}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { // the name of a project may hold what is no pattern
		if h := sources[r.Method+" "+r.URL.Path]; h != nil {
			h(w, r)
			return
		}
		http.NotFound(w, r)
	})
	s.mux.HandleFunc("GET /oauth/discovery/keys", s.publicKeys)
	s.pageRoutes()
}

// ofJob lets through who has the token of a job that runs.
func (s *Server) ofJob(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		if !s.isJobToken(password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="GitLab"`)
			http.Error(w, "HTTP Basic: Access denied. The password must be the token of a job that runs.", http.StatusUnauthorized)
			return
		}
		next(w, r)
	}
}

func (s *Server) isJobToken(given string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := 0
	for _, p := range s.board.pipelines {
		for _, j := range p.jobs {
			if t := j.last(); t != nil && j.state.runs() {
				found |= subtle.ConstantTimeCompare([]byte(t.token), []byte(given))
			}
		}
	}
	return found == 1
}

func (s *Server) publicKeys(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jwks == nil {
		s.jwks = map[string]any{"keys": []any{}}
	}
	writeJSON(w, s.jwks)
}

// Selection says which jobs of a pipeline there are.
type Selection struct {
	// Jobs are names of jobs, which run with what they need; none are all.
	Jobs []string
	// Manual are the names of manual jobs that start by themselves; "*" are all.
	Manual []string
}

// Start makes a pipeline of the project as it is now, and returns its number. The error may be diagnostics.
func (s *Server) Start(ctx context.Context, choice Selection) (int, error) {
	s.mu.Lock()
	number := len(s.board.pipelines) + 1
	s.mu.Unlock()
	p, err := s.newPipeline(ctx, number, choice)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
	if err == nil && number != len(s.board.pipelines)+1 {
		err = errors.New("somebody else has just started a pipeline; try again")
	}
	if err != nil {
		return 0, err
	}
	s.board.pipelines = append(s.board.pipelines, p)
	s.board.advance(p)
	s.tell()
	return number, nil
}

// newPipeline reads the project.
func (s *Server) newPipeline(ctx context.Context, number int, choice Selection) (*Pipeline, error) {
	project, err := s.opts.Open(ctx, number)
	if err != nil {
		return nil, err
	}
	if reason := project.Pipeline.Reason(); reason != "" {
		return nil, fmt.Errorf("there is no pipeline: %s", reason)
	}
	chosen, err := project.Select(choice.Jobs, true)
	if err != nil {
		return nil, err
	}
	p := &Pipeline{ID: number, project: project, created: time.Now(), named: append(append([]string(nil), choice.Jobs...), choice.Manual...)}
	branch, tag := p.ref()
	snapshot, err := s.git.Snapshot(ctx, number, branch, tag)
	if err != nil {
		return nil, err
	}
	p.commit, p.changed = snapshot.Commit, snapshot.Changed
	for _, def := range chosen {
		p.jobs = append(p.jobs, &Job{pipeline: p, def: def, state: Created})
	}
	p.notes = missing(project, p.jobs)
	return p, nil
}

// tell wakes who waits for a change. The caller holds the lock.
func (s *Server) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Changed is closed when the state of a job changes next. Logs are not states.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Run follows the jobs until ctx ends.
func (s *Server) Run(ctx context.Context) {
	for {
		again := s.api.Changed()
		s.mu.Lock()
		for _, p := range s.board.pipelines {
			if s.board.follow(p) {
				s.tell()
			}
		}
		next := s.board.nextDelayed()
		s.mu.Unlock()
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-again:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Log is the log of a job from an offset on, in bytes, and its size.
func (s *Server) Log(id int64, offset int) ([]byte, int) {
	s.mu.Lock()
	_, t := s.board.job(id)
	s.mu.Unlock()
	if t == nil {
		return nil, 0
	}
	return t.log(offset)
}

// LogsChanged is closed when anything changes next, logs included.
func (s *Server) LogsChanged() <-chan struct{} { return s.api.Changed() }

// Violations are what runners did against the protocol.
func (s *Server) Violations() []string { return s.api.Violations() }
