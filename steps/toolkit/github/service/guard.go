package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/rungci/rung/steps/toolkit/github/service/rest"
)

const (
	// maxMessage is how large a request of JSON may be, in bytes.
	maxMessage = 1 << 20
	// messageTimeout is how long such a request may take to arrive.
	messageTimeout = 30 * time.Second

	apiPath = "/api/v3"
)

// door is how a server is reached, and what opens it.
type door struct {
	addr   string // 127.0.0.1:PORT
	base   string // http://127.0.0.1:PORT
	tokens tokens
}

// guard lets only those in who know the server by its own name: a page in a browser that had its name point to this machine does not.
func (d door) guard(next func() http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, port, _ := net.SplitHostPort(d.addr)
		if r.Host != d.addr && r.Host != "localhost:"+port {
			http.Error(w, "this server is "+d.addr+", and answers to no other name", http.StatusMisdirectedRequest)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		next().ServeHTTP(w, r)
	})
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	s.artifacts.routes(mux)
	s.caches.routes(mux)
	s.identity.routes(mux)
	mux.HandleFunc("/_apis/pipelines/", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusNotImplemented, map[string]string{"message": "artifacts of version 3 and before are not served, as on GitHub: use version 4 or later of the action"})
	})
	mux.HandleFunc("/api/graphql", func(w http.ResponseWriter, r *http.Request) {
		rest.Fail(w, http.StatusNotImplemented, "Rung answers the REST API from the local repository, and no GraphQL; with --secret GITHUB_TOKEN actions reach GitHub")
	})
	mux.Handle(apiPath+"/", http.StripPrefix(apiPath, s.restAPI()))
	return mux
}

// withToken lets in who has the runtime token.
func (d door) withToken(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !holds(r, d.tokens.runtime) {
			writeTwirpError(w, &twirpError{"unauthenticated", "this is not the ACTIONS_RUNTIME_TOKEN of this job"})
			return
		}
		next(w, r)
	}
}

// twirpError is an error as clients of Twirp expect it.
type twirpError struct {
	Code    string `json:"code"`
	Message string `json:"msg"`
}

func (e *twirpError) Error() string { return e.Message }

func refuse(code, format string, args ...any) *twirpError {
	return &twirpError{code, fmt.Sprintf(format, args...)}
}

var twirpStatus = map[string]int{
	"malformed": 400, "invalid_argument": 400, "unauthenticated": 401, "permission_denied": 403, "not_found": 404, "already_exists": 409,
	"failed_precondition": 412, "internal": 500, "unimplemented": 501,
}

func writeTwirpError(w http.ResponseWriter, err error) {
	var known *twirpError
	if !errors.As(err, &known) {
		known = &twirpError{"internal", err.Error()}
	}
	writeJSON(w, twirpStatus[known.Code], known)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

// readJSON reads a request that is one JSON object, in the time and size that such a request may have.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(messageTimeout))
	defer http.NewResponseController(w).SetReadDeadline(time.Time{})
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return refuse("malformed", "reading the request: %v", err)
	}
	return nil
}

// twirp is a method of a service: JSON to JSON.
func twirp[Request, Response any](d door, mux *http.ServeMux, service, method string, call func(Request) (Response, error)) {
	mux.HandleFunc("POST /twirp/github.actions.results.api.v1."+service+"/"+method, d.withToken(func(w http.ResponseWriter, r *http.Request) {
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
			writeTwirpError(w, refuse("malformed", "the request is %q; this server speaks application/json", kind))
			return
		}
		var fields map[string]json.RawMessage
		var request Request
		err := readJSON(w, r, &fields)
		if err == nil {
			err = fromProtoJSON(fields, &request)
		}
		if err != nil {
			writeTwirpError(w, err)
			return
		}
		response, err := call(request)
		if err != nil {
			writeTwirpError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, response)
	}))
}

// fromProtoJSON reads a message whose fields have their own names or those of JSON (workflow_run_backend_id, workflowRunBackendId), as
// Protocol Buffers demand of a reader.
func fromProtoJSON(fields map[string]json.RawMessage, v any) error {
	own := make(map[string]json.RawMessage, len(fields))
	for name, field := range fields {
		var b strings.Builder
		for _, c := range name {
			if unicode.IsUpper(c) {
				b.WriteByte('_')
			}
			b.WriteRune(unicode.ToLower(c))
		}
		own[b.String()] = field
	}
	text, err := json.Marshal(own)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return refuse("malformed", "reading the request: %v", err)
	}
	return nil
}

// int64Text is a number that JSON of Protocol Buffers holds as a text, and may hold as a number.
type int64Text int64

// MarshalJSON writes a text.
func (n int64Text) MarshalJSON() ([]byte, error) {
	return []byte(`"` + strconv.FormatInt(int64(n), 10) + `"`), nil
}

// UnmarshalJSON reads a text or a number.
func (n *int64Text) UnmarshalJSON(text []byte) error {
	number, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	*n = int64Text(number)
	return err
}
