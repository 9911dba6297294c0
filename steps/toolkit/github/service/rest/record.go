package rest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/rungci/rung/internal/wholefile"
)

// Limits of what is recorded.
const (
	maxRecorded      = 10_000   // requests
	maxRecordedBytes = 16 << 20 // of their bodies
)

// Recorded is a request that would have changed something on GitHub.
type Recorded struct {
	Time   time.Time      `json:"time"`
	Method string         `json:"method"`
	Path   string         `json:"path"` // of the API
	Body   map[string]any `json:"body"`
	ID     int            `json:"id"` // that the answer had
}

// record is what was asked for and not done.
type record struct {
	path string

	mu    sync.Mutex
	all   []Recorded
	bytes int // of the bodies of all
}

// recorded are the requests that are recorded, with the permission that each needs.
var recorded = map[string]string{
	"POST /issues":                                  "issues:write",
	"PATCH /issues/{number}":                        "issues:write pull-requests:write",
	"POST /issues/{number}/comments":                "issues:write pull-requests:write",
	"PATCH /issues/comments/{id}":                   "issues:write pull-requests:write",
	"DELETE /issues/comments/{id}":                  "issues:write pull-requests:write",
	"POST /issues/{number}/labels":                  "issues:write pull-requests:write",
	"PUT /issues/{number}/labels":                   "issues:write pull-requests:write",
	"DELETE /issues/{number}/labels/{name}":         "issues:write pull-requests:write",
	"POST /issues/{number}/assignees":               "issues:write pull-requests:write",
	"POST /issues/{number}/reactions":               "issues:write pull-requests:write",
	"POST /statuses/{sha}":                          "statuses:write",
	"POST /check-runs":                              "checks:write",
	"PATCH /check-runs/{id}":                        "checks:write",
	"POST /commits/{sha}/comments":                  "contents:write",
	"PATCH /pulls/{number}":                         "pull-requests:write",
	"POST /pulls/{number}/comments":                 "pull-requests:write",
	"POST /pulls/{number}/reviews":                  "pull-requests:write",
	"POST /pulls/{number}/requested_reviewers":      "pull-requests:write",
	"POST /deployments":                             "deployments:write",
	"POST /deployments/{id}/statuses":               "deployments:write",
	"POST /dispatches":                              "contents:write",
	"POST /actions/workflows/{workflow}/dispatches": "actions:write",
}

func (a *API) recordRoutes() {
	for pattern, permission := range recorded {
		a.Handle(pattern, permission, a.recordRequest)
	}
	paged(a, "/issues/{number}/comments", "issues:read pull-requests:read", func(r *http.Request) ([]map[string]any, error) {
		return a.record.answers(r.URL.Path), nil
	})
}

// recordRequest writes a request down, tells of it, and answers with what was sent and a number.
func (a *API) recordRequest(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		Fail(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	}
	var body map[string]any
	if len(text) > 0 {
		if err := json.Unmarshal(text, &body); err != nil {
			Fail(w, http.StatusBadRequest, "Problems parsing JSON")
			return
		}
	}
	entry, err := a.record.add(Recorded{Time: time.Now().UTC(), Method: r.Method, Path: r.URL.Path, Body: body}, len(text))
	if err != nil {
		Fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	where := ""
	if a.record.path != "" {
		where = " (" + a.record.path + ")"
	}
	a.opts.Note(fmt.Sprintf("would have been sent to GitHub: %s %s%s", r.Method, r.URL.Path, where))
	switch r.Method {
	case http.MethodPost:
		write(w, http.StatusCreated, entry.answer())
	case http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		write(w, http.StatusOK, entry.answer())
	}
}

// answer is what was sent, with a number.
func (r Recorded) answer() map[string]any {
	answer := map[string]any{"id": r.ID, "node_id": "", "created_at": r.Time, "updated_at": r.Time, "user": map[string]string{"login": "github-actions[bot]", "type": "Bot"}}
	maps.Copy(answer, r.Body)
	return answer
}

// add writes a request down, whose body had so many bytes.
func (r *record) add(entry Recorded, size int) (Recorded, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= maxRecorded {
		return entry, fmt.Errorf("the job asked for %d changes on GitHub, and no more are recorded", maxRecorded)
	}
	if r.bytes+size > maxRecordedBytes {
		return entry, fmt.Errorf("the changes on GitHub that the job asked for have more than %d MiB, and no more are recorded", maxRecordedBytes>>20)
	}
	r.bytes += size
	entry.ID = len(r.all) + 1
	r.all = append(r.all, entry)
	if r.path == "" {
		return entry, nil
	}
	text, err := json.MarshalIndent(r.all, "", "  ")
	if err != nil {
		return entry, err
	}
	return entry, wholefile.WriteText(r.path, 0o600, append(text, '\n'))
}

// answers are those to the POSTs of a path.
func (r *record) answers(path string) []map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []map[string]any
	for _, entry := range r.all {
		if entry.Method == http.MethodPost && entry.Path == path {
			all = append(all, entry.answer())
		}
	}
	return all
}
