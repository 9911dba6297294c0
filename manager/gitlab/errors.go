package gitlab

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// StatusError is an answer of GitLab that is not a success.
type StatusError struct {
	Endpoint  string // "PATCH /jobs/{id}/trace"
	Status    int
	Message   string // what GitLab says; may be empty
	JobStatus string // the Job-Status header; empty if there was none
	RequestID string // finds the request in GitLab's logs
}

func (e *StatusError) Error() string {
	status := fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))
	text := e.Endpoint + ": GitLab answered " + status
	if e.Message != "" && e.Message != status {
		text += ": " + e.Message
	}
	return text + " (request " + e.RequestID + ")"
}

// NetworkError is a request without an answer that can be used.
type NetworkError struct {
	Endpoint  string
	RequestID string
	Err       error
}

func (e *NetworkError) Error() string {
	return fmt.Sprintf("%s: %v (request %s)", e.Endpoint, e.Err, e.RequestID)
}

func (e *NetworkError) Unwrap() error { return e.Err }

// Status is the status of the answer that err is about, or 0.
func Status(err error) int {
	var answered *StatusError
	if errors.As(err, &answered) {
		return answered.Status
	}
	return 0
}

// Unhealthy reports whether a request for a job failed in a way that will not pass by itself: the token is refused, or GitLab does
// not answer. Three of them in a row make gitlab-runner stop asking for an hour.
func Unhealthy(err error) bool {
	var unanswered *NetworkError
	return Status(err) == http.StatusForbidden || errors.As(err, &unanswered)
}

func statusError(endpoint string, got *answer, id string) *StatusError {
	if theirs := got.header.Get("X-Request-Id"); theirs != "" {
		id = theirs
	}
	return &StatusError{Endpoint: endpoint, Status: got.status, Message: message(got.body), JobStatus: got.header.Get("Job-Status"), RequestID: id}
}

// message is the text of an error's body: {"message": …} or {"error": …} with a string, or with lists of strings by field.
func message(body []byte) string {
	var parts struct {
		Message json.RawMessage `json:"message"`
		Error   json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &parts) != nil {
		return ""
	}
	for _, part := range []json.RawMessage{parts.Message, parts.Error} {
		var text string
		var fields map[string][]string
		switch {
		case json.Unmarshal(part, &text) == nil && text != "":
		case json.Unmarshal(part, &fields) == nil && len(fields) > 0:
			var said []string
			for field, problems := range fields {
				said = append(said, field+" "+strings.Join(problems, ", "))
			}
			slices.Sort(said)
			text = strings.Join(said, "; ")
		default:
			continue
		}
		if len(text) > MaxMessage {
			text = strings.ToValidUTF8(text[:MaxMessage], "") + "…"
		}
		return text
	}
	return ""
}

// withoutURL takes the address out of an error of net/http: it may hold a password.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Endpoint is a path with {id} for every number, for metrics and messages.
func Endpoint(path string) string {
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if part != "" && strings.Trim(part, "0123456789") == "" {
			parts[i] = "{id}"
		}
	}
	return strings.Join(parts, "/")
}
