package status

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/rungci/rung/internal/exposition"
	"github.com/rungci/rung/manager"
)

// Timeouts and sizes of the server that a Board's handlers are for.
const (
	RequestTimeout = 10 * time.Second
	AnswerTimeout  = time.Minute
	MaxHeader      = 16 << 10
)

// Status is what /status answers.
type Status struct {
	manager.State
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Page is where the page is; empty if it is nowhere but here.
	Page string `json:"page,omitempty"`
	// Refused says why the configuration was refused that was read last; nil if it is in force.
	Refused *Refused `json:"configuration_refused,omitempty"`
	// Waiting is for what this manager waits before it takes jobs; nil if it does not wait.
	Waiting *Waiting `json:"waiting,omitempty"`
	Last    []Job    `json:"last"` // that have ended, the last one first
}

// Waiting is for what a manager waits whose state another one has.
type Waiting struct {
	// Manager has the state; empty while nobody can say.
	Manager string `json:"manager,omitempty"`
	// Until is when its lease is over, which it renews.
	Until time.Time `json:"until,omitzero"`
	// Trouble is why nobody can say who has the state; empty if that is known.
	Trouble string `json:"trouble,omitempty"`
}

// String says so.
func (w *Waiting) String() string {
	if w.Trouble != "" {
		return "waiting: the lease of the shared state cannot be read: " + w.Trouble
	}
	return fmt.Sprintf("waiting: the manager %s holds the lease until %s, and renews it", w.Manager, w.Until.Local().Format(time.TimeOnly))
}

// Refused is a changed configuration that cannot be used. The one before it stays in force.
type Refused struct {
	Error string    `json:"error"`
	Since time.Time `json:"since"`
}

// Public serves what anybody may see who reaches the address: metrics, health and the list of jobs. The pages want the key.
func (b *Board) Public() http.Handler {
	mux := b.open()
	pages := b.pages()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if !b.admitted(w, r) {
			return
		}
		pages.ServeHTTP(w, r)
	})
	return headers(mux)
}

// Private serves everything to whoever reaches it: it is for a socket that only the manager's user can open. page says where Public is.
func (b *Board) Private(page func() string) http.Handler {
	mux := b.open()
	mux.Handle("/", b.pages())
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		s := Status{State: b.state(), Version: b.o.Version, Started: b.started, Page: page(), Refused: b.refusal(), Waiting: b.waits()}
		s.Last = append(s.Last, b.jobs(manager.State{})...)
		answerJSON(w, s)
	})
	return headers(mux)
}

// keyCookie keeps the key while somebody looks at pages.
const keyCookie = "rung_key"

// admitted lets those pass who know the key, and tells others how to learn it.
func (b *Board) admitted(w http.ResponseWriter, r *http.Request) bool {
	if key := r.URL.Query().Get("key"); key != "" && b.opens(key) {
		http.SetCookie(w, &http.Cookie{Name: keyCookie, Value: key, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		http.Redirect(w, r, r.URL.Path, http.StatusSeeOther) // the key is not left in the address
		return false
	}
	if c, err := r.Cookie(keyCookie); err == nil && b.opens(c.Value) {
		return true
	}
	http.Error(w, "This page shows logs of jobs. Run `rung status` on the machine of the runner: it prints the address with the key.", http.StatusForbidden)
	return false
}

func (b *Board) opens(key string) bool {
	return b.o.Key != "" && subtle.ConstantTimeCompare([]byte(key), []byte(b.o.Key)) == 1
}

// headers are those of every answer: no page of another site may show or read it.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// open are the paths without a key.
func (b *Board) open() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		var page bytes.Buffer
		_ = b.WriteMetrics(&page) // a buffer takes everything
		w.Header().Set("Content-Type", exposition.ContentType)
		_, _ = page.WriteTo(w)
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /health/ready", func(w http.ResponseWriter, _ *http.Request) {
		waits, err := b.waits(), error(nil)
		switch {
		case waits == nil:
			err = ready(b.state())
		case waits.Trouble != "":
			err = errors.New(waits.String())
		} // one that waits for its turn is as it should be
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /debug/jobs/list", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, j := range b.state().Jobs { // as gitlab-runner writes it
			fmt.Fprintf(w, "url=%q id=%d status=running duration=%s\n", j.URL, j.Job, time.Since(j.Began).Round(time.Millisecond))
		}
	})
	return mux
}

// ready says why the manager takes no jobs; nil if it does.
func ready(s manager.State) error {
	if s.Draining {
		return errors.New("no more jobs are taken")
	}
	if s.Disk != nil && s.Disk.Waiting != "" {
		return errors.New("there is no room on a disk for more jobs")
	}
	why := errors.New("no runner has reached GitLab yet")
	for _, e := range s.Entries {
		if e.Healthy() {
			return nil
		}
		switch {
		case e.Unable != "":
			why = fmt.Errorf("the runner %s (%s) cannot run jobs: %s", e.Name, e.Token, e.Unable)
		case e.Trouble != "":
			why = fmt.Errorf("the runner %s (%s) does not reach GitLab", e.Name, e.Token)
		}
	}
	return why
}

// pages are those that show logs.
func (b *Board) pages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		state := b.state()
		b.show(w, "jobs", overview{State: state, Version: b.o.Version, Started: b.started, Jobs: b.jobs(state), Refused: b.refusal()})
	})
	mux.HandleFunc("GET /jobs/{id}", func(w http.ResponseWriter, r *http.Request) {
		if j, ok := b.find(w, r); ok {
			b.show(w, "job", detail{Job: j, Log: readable(b.log(j))})
		}
	})
	mux.HandleFunc("GET /jobs/{id}/log", func(w http.ResponseWriter, r *http.Request) {
		if j, ok := b.find(w, r); ok {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write(b.log(j))
		}
	})
	mux.HandleFunc("GET /jobs/{id}/trace", func(w http.ResponseWriter, r *http.Request) {
		if j, ok := b.find(w, r); ok {
			sendTrace(w, r, j)
		}
	})
	return mux
}

// find is the job of a request; it answers the request if there is none. Two GitLabs may have the same number: then the token of the runner, as it
// is shown, says which job is meant.
func (b *Board) find(w http.ResponseWriter, r *http.Request) (Job, bool) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err == nil {
		runner := r.URL.Query().Get("runner")
		for _, j := range b.Jobs() {
			if j.Running.Job == id && (runner == "" || runner == j.Entry.Token) {
				return j, true
			}
		}
	}
	http.Error(w, "this manager does not know the job, or has forgotten it", http.StatusNotFound)
	return Job{}, false
}

// sendTrace answers with the trace of a job.
func sendTrace(w http.ResponseWriter, r *http.Request, j Job) {
	if j.End == nil || j.End.Trace == "" {
		http.Error(w, "the trace of this job is not kept, see `traces` in docs/rung.md", http.StatusNotFound)
		return
	}
	file, err := os.Open(j.End.Trace)
	if errors.Is(err, fs.ErrNotExist) {
		http.Error(w, "the trace of this job has been removed", http.StatusNotFound)
		return
	}
	if err != nil {
		http.Error(w, "the trace cannot be read", http.StatusInternalServerError)
		return
	}
	defer file.Close()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=job-%d.trace.json", j.Running.Job))
	http.ServeContent(w, r, "", j.Finished, file)
}

func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
