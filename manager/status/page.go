package status

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/manager"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("").Funcs(template.FuncMap{
	"line":  cleantext.Line, // of what projects chose
	"since": func(t time.Time) string { return time.Since(t).Round(time.Second).String() },
	"at":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") },
	"brief": func(d time.Duration) string { return d.Round(10 * time.Millisecond).String() },
}).Parse(pageText))

// overview is what the first page shows.
type overview struct {
	manager.State
	Version string
	Started time.Time
	Jobs    []Job
	Refused *Refused
}

// detail is what the page of a job shows.
type detail struct {
	Job Job
	Log string
}

func (b *Board) show(w http.ResponseWriter, name string, data any) {
	var out bytes.Buffer
	if err := page.ExecuteTemplate(&out, name, data); err != nil {
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = out.WriteTo(w)
}

// control are the escape sequences and marks of GitLab's log.
var control = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]|section_(?:start|end):[0-9]+:[^\r\n]*\r|[\x00-\x08\x0b-\x1f\x7f]`)

// readable is a log without what only GitLab and terminals understand. What would turn or hide text is shown as its code point.
func readable(log []byte) string {
	return cleantext.Text(control.ReplaceAllString(strings.ToValidUTF8(string(log), "�"), ""))
}
