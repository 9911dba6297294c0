package fakegitlab

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rungci/rung/steps/diag"
)

//go:embed page.html page.css page.js terminal.js
var files embed.FS

var pages = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"short": func(commit string) string { return commit[:min(shortSHA, len(commit))] },
	"took":  func(d time.Duration) string { return d.Round(100 * time.Millisecond).String() },
	"when":  func(t time.Time) string { return t.Format(time.RFC3339) },
	"clock": func(t time.Time) string { return t.Format(time.TimeOnly) },
	"size":  func(n int) string { return fmt.Sprintf("%d bytes", n) },
	"live":  func(s State) bool { return !s.Over() },
	"class": func(s State) string {
		if s == Waiting {
			return "waiting"
		}
		return string(s)
	},
}).ParseFS(files, "page.html"))

// maxShownLog is how much of a log the page shows: its end. All of it is behind a link.
const maxShownLog = 512 << 10

// page is what browsers see. Only who has its token sees anything, and only from its own pages something is done.
type page struct {
	*Server
	cookie string
	host   string // the Host of requests
	port   string
}

// PageURL is the address to open in a browser. It holds the token, and leads to the page without it.
func (s *Server) PageURL() string { return s.opts.URL + "/-/enter?token=" + s.pageToken }

func (s *Server) pageRoutes() {
	p := &page{Server: s}
	if u, err := url.Parse(s.opts.URL); err == nil {
		p.host, p.port = u.Host, u.Port()
	}
	p.cookie = "rung_dev_" + p.port // ports share cookies
	s.mux.HandleFunc("GET /-/enter", p.safe(p.enter))
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /{$}":                             p.index,
		"GET /-/page.css":                      p.file("page.css", "text/css; charset=utf-8"),
		"GET /-/page.js":                       p.file("page.js", "text/javascript; charset=utf-8"),
		"GET /-/terminal.js":                   p.file("terminal.js", "text/javascript; charset=utf-8"),
		"GET /-/pipelines/{id}":                p.pipeline,
		"GET /-/jobs/{id}":                     p.job,
		"GET /-/jobs/{id}/raw":                 p.raw,
		"GET /-/jobs/{id}/terminal":            p.terminal,
		"GET /-/jobs/{id}/terminal.ws":         p.connect,
		"GET /-/jobs/{id}/artifacts/{n}":       p.artifact,
		"POST /-/pipelines":                    p.run,
		"POST /-/pipelines/{id}/cancel":        p.cancel,
		"POST /-/pipelines/{id}/jobs/{action}": p.act,
	} {
		s.mux.HandleFunc(pattern, p.safe(p.known(h)))
	}
}

// safe refuses names of this machine that are not the server's own, as a page elsewhere could give it, and requests that another page made.
func (p *page) safe(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // with less than that, forms would be sent with an Origin that says nothing
		h.Set("Cache-Control", "no-store")
		if !p.isOwn(r.Host) {
			http.Error(w, "this server is "+p.opts.URL+", and has no other name", http.StatusMisdirectedRequest)
			return
		}
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self' ws://"+r.Host+"; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Header.Get("Origin") != "http://"+r.Host {
			http.Error(w, "another page asked for this", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

func (p *page) isOwn(host string) bool {
	return host == p.host || isLoopback(p.host) && host == net.JoinHostPort("localhost", p.port)
}

func isLoopback(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}

// enter gives the browser that has the token a cookie.
func (p *page) enter(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("token")), []byte(p.pageToken)) != 1 {
		http.Error(w, "this is not the token of this server: open the address that it printed", http.StatusForbidden)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: p.cookie, Value: p.pageToken, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// known lets through who has the cookie.
func (p *page) known(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := r.Cookie(p.cookie)
		if err != nil || subtle.ConstantTimeCompare([]byte(c.Value), []byte(p.pageToken)) != 1 {
			http.Error(w, "open the address that the server printed when it started: it holds a token", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

func (p *page) file(name, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		text, _ := files.ReadFile(name) // it is embedded
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text)
	}
}

// screen is what page.html is given.
type screen struct {
	Title, Project string
	Live           bool // something may change by itself
	Wrong          string
	Pipelines      []PipelineView
	Pipeline       *PipelineView
	Job            *JobView
	Terminal       *JobView // the job whose terminal is shown
	Log            template.HTML
	LogSize        int
	Cut            bool
}

// show writes a page, unless the browser has it.
func (p *page) show(w http.ResponseWriter, r *http.Request, s screen) {
	s.Project = string(p.opts.Repository.Project)
	var b bytes.Buffer
	if err := pages.Execute(&b, s); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256(b.Bytes())
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}

func (p *page) index(w http.ResponseWriter, r *http.Request) {
	s := screen{Title: "Pipelines", Pipelines: p.Pipelines()}
	for _, v := range s.Pipelines {
		s.Live = s.Live || !v.State.Over()
	}
	p.mu.Lock()
	s.Wrong = explain(p.broken)
	p.mu.Unlock()
	p.show(w, r, s)
}

// explain is why there is no pipeline, with all that is wrong with the file.
func explain(err error) string {
	if err == nil {
		return ""
	}
	list := diag.Of(err)
	if list == nil {
		return err.Error()
	}
	var b bytes.Buffer
	for _, d := range list {
		b.WriteString(d.Error() + "\n")
	}
	return b.String()
}

// number reads {id}; it answers by itself, and returns false, where that is none.
func number(w http.ResponseWriter, r *http.Request) (int, bool) {
	n, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		http.NotFound(w, r)
	}
	return n, err == nil
}

func (p *page) pipeline(w http.ResponseWriter, r *http.Request) {
	id, ok := number(w, r)
	if !ok {
		return
	}
	v, ok := p.Pipeline(id)
	if !ok {
		http.NotFound(w, r)
		return
	}
	p.show(w, r, screen{Title: fmt.Sprintf("Pipeline %d", id), Live: !v.State.Over(), Pipeline: &v})
}

func (p *page) job(w http.ResponseWriter, r *http.Request) {
	id, ok := number(w, r)
	if !ok {
		return
	}
	v, ok := p.Job(int64(id))
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, size := p.Log(int64(id), 1<<62)
	log, _ := p.Log(int64(id), size-maxShownLog)
	s := screen{Title: v.Name, Live: !v.State.Over(), Job: &v, LogSize: size, Cut: size > maxShownLog}
	if at := bytes.IndexByte(log, '\n'); s.Cut && at >= 0 {
		log = log[at+1:]
	}
	s.Log = template.HTML(logHTML(log)) //nolint:gosec // it escapes all text
	p.show(w, r, s)
}

func (p *page) raw(w http.ResponseWriter, r *http.Request) {
	if id, ok := number(w, r); ok {
		log, _ := p.Log(int64(id), 0)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(log)
	}
}

func (p *page) artifact(w http.ResponseWriter, r *http.Request) {
	id, ok := number(w, r)
	if !ok {
		return
	}
	v, ok := p.Job(int64(id))
	n, err := strconv.Atoi(r.PathValue("n"))
	if !ok || err != nil || n < 0 || n >= len(v.Artifacts) {
		http.NotFound(w, r)
		return
	}
	a := v.Artifacts[n]
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": a.Filename}))
	_, _ = w.Write(a.Data)
}

func (p *page) run(w http.ResponseWriter, r *http.Request) {
	id, err := p.Start(r.Context(), Selection{})
	if err != nil {
		http.Redirect(w, r, "/", http.StatusSeeOther) // which shows why
		return
	}
	http.Redirect(w, r, "/-/pipelines/"+strconv.Itoa(id), http.StatusSeeOther)
}

func (p *page) cancel(w http.ResponseWriter, r *http.Request) {
	if id, ok := number(w, r); ok {
		p.Cancel(id)
		http.Redirect(w, r, "/-/pipelines/"+strconv.Itoa(id), http.StatusSeeOther)
	}
}

// act plays, cancels or retries a job.
func (p *page) act(w http.ResponseWriter, r *http.Request) {
	id, ok := number(w, r)
	if !ok {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	name := r.PostFormValue("name")
	do := map[string]func(int, string) error{"play": p.Play, "cancel": p.CancelJob, "retry": p.Retry}[r.PathValue("action")]
	err := errors.New("there is no such action")
	if do != nil {
		err = do(id, name)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	http.Redirect(w, r, "/-/pipelines/"+strconv.Itoa(id), http.StatusSeeOther)
}

func writeJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // a client that left hears nothing
}
