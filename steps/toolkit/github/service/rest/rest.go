// Package rest implements the part of GitHub's REST API that a local repository can answer: its content, its changes, and the pull request
// or issue in the event that started the job. Requests that would change something on GitHub (a comment, a status) are recorded and
// reported, not sent. All other requests fail with an error that says so.
//
// What a request may do is decided by the permissions of the job's token, with GitHub's words.
package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/rungci/rung/steps/plan"
)

// Limits of answers.
const (
	// MaxBlob is how large a file is that is still answered, in bytes: GitHub's limit.
	MaxBlob = 100 << 20
	// maxPage is how many elements one page can have: GitHub's limit.
	maxPage = 100
	// maxChanged is how many changed files a comparison tells of: GitHub's limit.
	maxChanged = 300
	// maxBody is how large a request may be, in bytes.
	maxBody = 4 << 20
	// maxEvent is how large the payload of the event may be, in bytes.
	maxEvent = 32 << 20
)

// Options are what the API is answered from.
type Options struct {
	Base        string            // the address of the API, for the addresses in answers
	WorkTree    string            // a folder in the Git repository; "" has none
	GitHub      map[string]string // the texts of the github context
	Permissions map[string]string // of the token
	Record      string            // the file of requests that are recorded; "" keeps them in memory
	Note        func(string)
}

// API answers requests that were let in.
type API struct {
	opts   Options
	repo   repository
	record record
	mux    *http.ServeMux
}

// New returns an API.
func New(opts Options) *API {
	a := &API{opts: opts, repo: repository{opts.WorkTree}, record: record{path: opts.Record}, mux: http.NewServeMux()}
	a.gitRoutes()
	a.eventRoutes()
	a.recordRoutes()
	a.mux.HandleFunc("GET /rate_limit", func(w http.ResponseWriter, r *http.Request) {
		core := map[string]int{"limit": 5000, "remaining": 5000, "used": 0, "reset": 0}
		write(w, http.StatusOK, map[string]any{"resources": map[string]any{"core": core}, "rate": core})
	})
	a.mux.HandleFunc("GET /user", func(w http.ResponseWriter, r *http.Request) { Forbid(w, "") }) // a job's token is not a user's
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusNotImplemented
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			status = http.StatusNotFound
		}
		Fail(w, status, fmt.Sprintf("Rung answers the REST API from the local repository, which does not know %s %s; with --secret GITHUB_TOKEN actions reach GitHub", r.Method, r.URL.Path))
	})
	return a
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// Handle adds an answer about the repository: pattern is "METHOD /path" below /repos/OWNER/NAME, and permission "contents:read".
func (a *API) Handle(pattern, permission string, answer func(http.ResponseWriter, *http.Request)) {
	method, path, _ := strings.Cut(pattern, " ")
	a.mux.HandleFunc(method+" /repos/{owner}/{repo}"+path, func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("owner") + "/" + r.PathValue("repo")
		if !strings.EqualFold(name, a.opts.GitHub["repository"]) {
			Fail(w, http.StatusNotFound, fmt.Sprintf("Not Found: only %s is available here, not %s", a.opts.GitHub["repository"], name))
			return
		}
		if !a.allowed(r, permission) {
			Forbid(w, permission)
			return
		}
		answer(w, r)
	})
}

// get adds an answer of JSON.
func (a *API) get(path, permission string, answer func(*http.Request) (any, error)) {
	a.Handle("GET "+path, permission, func(w http.ResponseWriter, r *http.Request) {
		v, err := answer(r)
		if err != nil {
			fail(w, err)
			return
		}
		write(w, http.StatusOK, v)
	})
}

// narrowedKey is where the context of a request has what its token may do, where that is not all.
type narrowedKey struct{}

// Narrowed returns a request whose token may do no more than the permissions say; nil is all that the job may.
func Narrowed(r *http.Request, permissions map[string]string) *http.Request {
	if permissions == nil {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), narrowedKey{}, permissions))
}

// allowed reports whether one of the permissions, "issues:write pull-requests:write", is granted.
func (a *API) allowed(r *http.Request, permissions string) bool {
	narrowed, isNarrowed := r.Context().Value(narrowedKey{}).(map[string]string)
	for _, p := range strings.Fields(permissions) {
		name, level, _ := strings.Cut(p, ":")
		granted := a.opts.Permissions[name]
		if p == "metadata:read" {
			return true
		}
		if (granted == "write" || granted == level) && (!isNarrowed || plan.Permits(narrowed, name, level)) {
			return true
		}
	}
	return false
}

// Forbid says that the token lacks a permission, as GitHub does.
func Forbid(w http.ResponseWriter, permissions string) {
	if permissions != "" {
		w.Header().Set("X-Accepted-GitHub-Permissions", strings.ReplaceAll(strings.ReplaceAll(permissions, " ", "; "), ":", "="))
	}
	Fail(w, http.StatusForbidden, "Resource not accessible by integration")
}

// Fail answers with an error as GitHub does.
func Fail(w http.ResponseWriter, status int, message string) {
	write(w, status, map[string]string{"message": message, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(status)})
}

// problem is an error with a status of HTTP.
type problem struct {
	status  int
	message string
}

func (p *problem) Error() string { return p.message }

func notFound(format string, args ...any) error {
	return &problem{http.StatusNotFound, "Not Found: " + fmt.Sprintf(format, args...)}
}

func fail(w http.ResponseWriter, err error) {
	if p, ok := errors.AsType[*problem](err); ok {
		Fail(w, p.status, p.message)
		return
	}
	Fail(w, http.StatusInternalServerError, err.Error())
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-GitHub-Media-Type", "github.v3; format=json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

// paged answers with the page of a list that is asked for.
func paged[T any](a *API, path, permission string, answer func(*http.Request) ([]T, error)) {
	a.Handle("GET "+path, permission, func(w http.ResponseWriter, r *http.Request) {
		all, err := answer(r)
		if err != nil {
			fail(w, err)
			return
		}
		write(w, http.StatusOK, Page(a.opts.Base, w, r, all))
	})
}

// Page cuts a page out of a list, and says in the header where the next one is.
func Page[T any](base string, w http.ResponseWriter, r *http.Request, all []T) []T {
	query := r.URL.Query()
	size, err := strconv.Atoi(query.Get("per_page"))
	if err != nil || size < 1 {
		size = 30
	}
	number, err := strconv.Atoi(query.Get("page"))
	if err != nil || number < 1 {
		number = 1
	}
	size = min(size, maxPage)
	from := min(number-1, len(all)/size+1) * size
	from, to := min(from, len(all)), min(from+size, len(all))
	if to < len(all) {
		query.Set("page", strconv.Itoa(number+1))
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>; rel="next"`, base, r.URL.EscapedPath(), query.Encode()))
	}
	return append([]T{}, all[from:to]...) // never null
}

// event reads the payload of the event that started the job.
func (a *API) event() (map[string]any, error) {
	path := a.opts.GitHub["event_path"]
	if path == "" {
		return nil, notFound("the job has no event")
	}
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxEvent {
		err = fmt.Errorf("it has %d bytes, and may have %d", info.Size(), maxEvent)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	var payload map[string]any
	if err == nil {
		err = json.Unmarshal(text, &payload)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the event: %w", err)
	}
	return payload, nil
}
