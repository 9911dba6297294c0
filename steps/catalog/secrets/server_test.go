package secrets

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	identity  = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJqb2IifQ.c2lnbmF0dXJl"
	longLived = "hvs.CAESIJlongtoken"
)

// server answers as the API documentation of Vault says: JWT authentication at auth/gitlab/ci, kv-v2 at ops, kv-v1 at old, and
// credentials of a database, made on demand, at database. Whatever it is asked in another way is an error of the test.
type server struct {
	t         *testing.T
	namespace string // that every request must name
	batch     bool   // it gives batch tokens
	noRevoke  bool   // the policies do not allow to revoke
	broken    int    // how many requests it answers with 503 first

	mu     sync.Mutex
	tokens map[string]bool // whether they count
	log    []string
}

func start(t *testing.T, s *server) string {
	t.Helper()
	s.t = t
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return h.URL
}

// live reports whether a token counts still.
func (s *server) live() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(slices.Collect(maps.Values(s.tokens)), true)
}

func (s *server) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, r.Method+" "+r.URL.EscapedPath())
	body, _ := io.ReadAll(r.Body)
	if s.broken > 0 {
		s.broken--
		s.fail(w, 503, "Vault is sealed")
		return
	}
	if got := r.Header.Get("X-Vault-Namespace"); got != s.namespace {
		s.t.Errorf("%s: the namespace is %q", r.URL.Path, got)
	}
	if r.Header.Get("X-Vault-Request") != "true" {
		s.t.Errorf("%s: no header X-Vault-Request", r.URL.Path)
	}
	switch path := strings.TrimPrefix(r.URL.EscapedPath(), "/v1/"); path {
	case "auth/gitlab/ci/login":
		s.login(w, r, body)
		return
	case "auth/token/revoke-self":
		s.revoke(w, r, body)
		return
	default:
		if !s.tokens[r.Header.Get("X-Vault-Token")] {
			s.fail(w, 403, "permission denied")
			return
		}
		if r.Method != http.MethodGet || len(body) > 0 {
			s.t.Errorf("%s %s with %q", r.Method, path, body)
		}
		s.read(w, path)
	}
}

func (s *server) login(w http.ResponseWriter, r *http.Request, body []byte) {
	var in map[string]string
	if err := json.Unmarshal(body, &in); r.Method != http.MethodPost || err != nil {
		s.t.Errorf("login by %s: %v", r.Method, err)
	}
	if r.Header.Get("X-Vault-Token") != "" {
		s.t.Error("logging in with a token")
	}
	role, given := in["role"]
	switch {
	case in["jwt"] == "echo": // a server that says too much
		s.fail(w, 400, "what is "+in["jwt"]+"?")
	case in["jwt"] != identity:
		s.fail(w, 400, "error validating token: invalid signature of "+in["jwt"])
	case given && role != "deploy":
		s.fail(w, 400, fmt.Sprintf("role %q could not be found", role))
	default:
		kind := "service"
		if s.batch {
			kind = "batch"
		}
		if s.tokens == nil {
			s.tokens = map[string]bool{}
		}
		token := longLived + strconv.Itoa(len(s.tokens))
		s.tokens[token] = true
		fmt.Fprintf(w, `{"request_id":"1","lease_id":"","renewable":false,"lease_duration":0,"data":null,"wrap_info":null,"warnings":null,
			"auth":{"client_token":%q,"accessor":"a","policies":["default"],"metadata":{"role":"deploy"},"lease_duration":900,"renewable":true,
			"entity_id":"e","token_type":%q,"orphan":true,"mfa_requirement":null,"num_uses":0}}`, token, kind)
	}
}

func (s *server) revoke(w http.ResponseWriter, r *http.Request, body []byte) {
	switch {
	case r.Method != http.MethodPost || len(body) > 0:
		s.t.Errorf("revoking by %s with %q", r.Method, body)
	case !s.tokens[r.Header.Get("X-Vault-Token")] || s.noRevoke:
		s.fail(w, 403, "permission denied")
	case s.batch:
		s.fail(w, 400, "batch tokens cannot be revoked")
	default:
		s.tokens[r.Header.Get("X-Vault-Token")] = false
		w.WriteHeader(204)
	}
}

func (s *server) read(w http.ResponseWriter, path string) {
	const lead = `{"request_id":"2","lease_id":"","renewable":false,"lease_duration":2764800,"wrap_info":null,"warnings":null,"auth":null,"data":`
	switch path {
	case "ops/data/production/db":
		fmt.Fprint(w, lead+`{"data":{"password":"pa\u0024\u0024 word\n","port":5432,"big":12345678901234567890,"open":true,"hosts":["a","b"],"none":null,"pin":"123"},
			"metadata":{"created_time":"2026-01-01T00:00:00Z","custom_metadata":null,"deletion_time":"","destroyed":false,"version":3}}}`)
	case "ops/data/a%20b/%C3%BC%3F":
		fmt.Fprint(w, lead+`{"data":{"password":"odd"},"metadata":{"version":1}}}`)
	case "ops/data/deleted":
		w.WriteHeader(404)
		fmt.Fprint(w, lead+`{"data":null,"metadata":{"deletion_time":"2026-01-01T00:00:00Z","destroyed":false,"version":1}}}`)
	case "ops/data/forbidden":
		s.fail(w, 403, "1 error occurred:\n\t* permission denied\n\n")
	case "old/db", "old/data/db":
		fmt.Fprint(w, lead+`{"password":"from before","hosts":"none"}}`)
	case "database/creds/app":
		fmt.Fprint(w, `{"request_id":"2","lease_id":"database/creds/app/x","renewable":true,"lease_duration":3600,"data":{"username":"v-app","password":"made now"}}`)
	case "html":
		fmt.Fprint(w, `<html>`)
	default:
		w.WriteHeader(404)
		fmt.Fprint(w, `{"errors":[]}`)
	}
}

func (s *server) fail(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	text, _ := json.Marshal(map[string][]string{"errors": {message}})
	_, _ = w.Write(text)
}
