package gitlab_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

// connect returns a client of a server, and where it records its waits.
func connect(t *testing.T, h http.Handler) (*gitlab.Client, *[]time.Duration) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	var waits []time.Duration
	c, err := gitlab.New(gitlab.Options{
		URL:  server.URL + "/ci/",
		Info: gitlab.Info{Name: "gitlab-runner", Version: "1", Features: gitlab.Features{Refspecs: true, TwoPhaseJobCommit: true, CancelGracefully: true}},
		Wait: func(ctx context.Context, d time.Duration) error { waits = append(waits, d); return ctx.Err() },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, &waits
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://gitlab.example.com":          "https://gitlab.example.com/api/v4",
		"https://gitlab.example.com/":         "https://gitlab.example.com/api/v4",
		"https://gitlab.example.com/ci":       "https://gitlab.example.com/api/v4",
		"https://example.com/gitlab/ci/":      "https://example.com/gitlab/api/v4",
		"http://gitlab.example.com:8080/?a=b": "http://gitlab.example.com:8080/api/v4",
	} {
		c, err := gitlab.New(gitlab.Options{URL: address})
		if err != nil || c.URL() != want {
			t.Errorf("%s: %v, want %s (%v)", address, c, want, err)
		}
	}
	for address, want := range map[string]string{"gitlab.example.com": "must begin with https://", "https://": "no host", "https://[": "not a URL"} {
		if _, err := gitlab.New(gitlab.Options{URL: address}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestRetries are cases 41, 43 and 44 of the runner API's.
func TestRetries(t *testing.T) {
	t.Parallel()
	reset := time.Now().Add(90 * time.Second).UTC().Format(time.RFC1123)
	for _, c := range []struct {
		name        string
		status      int
		header      []string
		attempts    int // how often it fails
		status2     int // of the error; 0 is none
		least, most time.Duration
		waits       int
	}{
		{"reset time", 429, []string{"RateLimit-ResetTime", reset, "Retry-After", "7"}, 1, 0, 80 * time.Second, 91 * time.Second, 1},
		{"reset time that is none", 429, []string{"RateLimit-ResetTime", "soon", "Retry-After", "7"}, 1, 0, 7 * time.Second, 7 * time.Second, 1},
		{"retry after", 429, []string{"Retry-After", "60"}, 1, 0, time.Minute, time.Minute, 1},
		{"a wait without end", 503, []string{"Retry-After", "86400"}, 1, 0, gitlab.MaxWait, gitlab.MaxWait, 1},
		{"neither", 502, nil, 1, 0, 50 * time.Millisecond, 100 * time.Millisecond, 1},
		{"a CDN's", 521, nil, 2, 0, 50 * time.Millisecond, 200 * time.Millisecond, 2},
		{"for ever", 500, nil, 100, 500, 50 * time.Millisecond, 800 * time.Millisecond, 4},
		{"not to be repeated", 409, nil, 1, 409, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := gitlabtest.New(gitlabtest.Options{})
			client, waits := connect(t, s)
			runner := gitlab.Runner{Token: s.NewRunner(), SystemID: "s_0123456789ab"}
			s.Enqueue(gitlab.Job{})
			s.Fail(c.attempts, "POST /jobs/request", c.status, c.header...)
			got, err := client.RequestJob(t.Context(), gitlab.Ask{Runner: runner})
			if gitlab.Status(err) != c.status2 || err == nil && got.Job == nil {
				t.Errorf("the answer is %v, %v", got, err)
			}
			if len(*waits) != c.waits {
				t.Errorf("waited %v", *waits)
			}
			for _, d := range *waits {
				if d < c.least || d > c.most {
					t.Errorf("waited %v, not %v to %v", d, c.least, c.most)
				}
			}
		})
	}
}

// TestCancelledWait is case 42.
func TestCancelledWait(t *testing.T) {
	t.Parallel()
	s := gitlabtest.New(gitlabtest.Options{})
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := gitlab.New(gitlab.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	s.Fail(1, "POST /jobs/request", http.StatusTooManyRequests, "Retry-After", "3600")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := client.RequestJob(ctx, gitlab.Ask{}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "after status 429") {
		t.Errorf("%v", err)
	}
}

// TestEndpoints is case 45.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/api/v4/jobs/123/trace":                 "/api/v4/jobs/{id}/trace",
		"/jobs/1/artifacts?artifact_type=9":      "/jobs/{id}/artifacts",
		"/runners/12/reset_authentication_token": "/runners/{id}/reset_authentication_token",
		"/runners/verify":                        "/runners/verify",
	} {
		if got := gitlab.Endpoint(path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// TestMessages is case 46.
func TestMessages(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"message":"403 Forbidden"}`:                                  "GitLab answered 403 Forbidden (request",
		`{"message":{"tag_list":["is empty","is odd"],"base":["no"]}}`: "base no; tag_list is empty, is odd",
		`{"error":"token is missing"}`:                                 "token is missing",
		`<html>`:                                                       "GitLab answered 403 Forbidden (request",
		`{"message":[1]}`:                                              "GitLab answered 403 Forbidden (request",
		`{"message":"` + strings.Repeat("x", 2*gitlab.MaxMessage) + `"}`: "x… (request",
	} {
		client, _ := connect(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, body)
		}))
		_, err := client.Verify(t.Context(), gitlab.Runner{Token: "glrt-secret"})
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 2*gitlab.MaxMessage {
			t.Errorf("%s: %v", body, err)
		}
		if !gitlab.Unhealthy(err) {
			t.Errorf("%s is not unhealthy", body)
		}
	}
}

// TestNoAnswer says what is wrong with servers that are not GitLab, and shows no secret.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"another page": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "<html>")
		}, "not JSON"},
		"another JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "[]")
		}, "not what the runner API documents"},
		"no job": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "{}")
		}, "no id"},
		"too much":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.CopyN(w, zeros{}, gitlab.MaxAnswer+1) }, "more than"},
		"a broken line": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"a long way": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		}, "10 redirects"},
	} {
		client, _ := connect(t, c.h)
		_, err := client.RequestJob(t.Context(), gitlab.Ask{Runner: gitlab.Runner{Token: "glrt-secret"}})
		var unanswered *gitlab.NetworkError
		if !errors.As(err, &unanswered) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
		if !gitlab.Unhealthy(err) {
			t.Errorf("%s is not unhealthy", name)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestASilentServer is given up, so that whoever asked can ask again.
func TestASilentServer(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	client, err := gitlab.New(gitlab.Options{URL: server.URL, Timeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.RequestJob(t.Context(), gitlab.Ask{})
	if !gitlab.Unhealthy(err) || !strings.Contains(err.Error(), "did not answer in time") {
		t.Error(err)
	}
}

// TestARedirectKeepsTheRequest follows a load balancer that answers 307, but not to another host, out of encryption, or with another method.
func TestTheChainIsWhatTheCertificateWasVerifiedWith(t *testing.T) {
	t.Parallel()
	s := gitlabtest.New(gitlabtest.Options{})
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	c, err := gitlab.New(gitlab.Options{URL: server.URL, Transport: server.Client().Transport})
	if err != nil || c.Chain() != "" {
		t.Fatal(err, c.Chain())
	}
	if _, err := c.Verify(t.Context(), gitlab.Runner{Token: s.NewRunner(), SystemID: "s_0123456789ab"}); err != nil {
		t.Fatal(err)
	}
	if want := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})); c.Chain() != want { // it has signed itself
		t.Errorf("got %q", c.Chain())
	}
}

func TestARedirectKeepsTheRequest(t *testing.T) {
	t.Parallel()
	s := gitlabtest.New(gitlabtest.Options{})
	target := httptest.NewServer(s)
	t.Cleanup(target.Close)
	away := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	client, _ := connect(t, away)
	if _, err := client.Verify(t.Context(), gitlab.Runner{Token: s.NewRunner(), SystemID: "r_0123456789ab"}); err != nil {
		t.Error(err)
	}
	encrypted := httptest.NewTLSServer(away)
	t.Cleanup(encrypted.Close)
	client, err := gitlab.New(gitlab.Options{URL: encrypted.URL, Transport: encrypted.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Verify(t.Context(), gitlab.Runner{Token: "x"}); err == nil || !strings.Contains(err.Error(), "without encryption") {
		t.Error(err)
	}
	for status, c := range map[int]struct{ to, want string }{
		http.StatusPermanentRedirect: {"http://localhost:1", "another host, localhost:1"},
		http.StatusFound:             {target.URL, "makes it GET"},
	} {
		client, _ := connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, c.to+r.URL.Path, status) }))
		if _, err := client.Verify(t.Context(), gitlab.Runner{Token: "x"}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func TestRunners(t *testing.T) {
	t.Parallel()
	s := gitlabtest.New(gitlabtest.Options{})
	client, _ := connect(t, s)
	ctx := t.Context()
	made, err := client.Register(ctx, gitlab.Registration{Token: gitlabtest.RegistrationToken, Description: "here"})
	if err != nil || made.Token == "" || made.ID == 0 {
		t.Fatal(made, err)
	}
	runner := gitlab.Runner{Token: made.Token, SystemID: "s_0123456789ab"}
	if known, err := client.Verify(ctx, runner); err != nil || known.ID != made.ID {
		t.Error(known, err)
	}
	if info := s.Runner(made.Token).Managers[runner.SystemID]; !info.Features.CancelGracefully {
		t.Error("GitLab does not know what the runner can do")
	}
	renewed, err := client.ResetToken(ctx, runner)
	if err != nil || renewed.Token == made.Token {
		t.Error(renewed, err)
	}
	if _, err := client.Verify(ctx, runner); gitlab.Status(err) != http.StatusForbidden {
		t.Error(err)
	}
	runner.Token = renewed.Token
	if err := client.UnregisterManager(ctx, runner); err != nil {
		t.Error(err)
	}
	if err := client.UnregisterManager(ctx, runner); gitlab.Status(err) != http.StatusNotFound {
		t.Error(err)
	}
	if err := client.Unregister(ctx, runner); err != nil {
		t.Error(err)
	}
	if _, err := client.Register(ctx, gitlab.Registration{Token: "wrong"}); gitlab.Status(err) != http.StatusForbidden {
		t.Error(err)
	}
	if said := s.Violations(); len(said) > 0 {
		t.Error(said)
	}
}

// TestAPlainTextVerification is that of servers before 15.11.
func TestAPlainTextVerification(t *testing.T) {
	t.Parallel()
	client, _ := connect(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "200")
	}))
	if got, err := client.Verify(t.Context(), gitlab.Runner{Token: "old"}); err != nil || got.Token != "old" {
		t.Error(got, err)
	}
}

func TestLongPolling(t *testing.T) {
	t.Parallel()
	s := gitlabtest.New(gitlabtest.Options{LongPoll: time.Minute})
	client, _ := connect(t, s)
	runner := gitlab.Runner{Token: s.NewRunner(), SystemID: "s_0123456789ab"}
	first, err := client.RequestJob(t.Context(), gitlab.Ask{Runner: runner})
	if err != nil || first.Job != nil || first.LastUpdate == "" {
		t.Fatal(first, err)
	}
	go func() {
		time.Sleep(20 * time.Millisecond)
		s.Enqueue(gitlab.Job{Info: gitlab.JobInfo{Name: "later"}})
	}()
	second, err := client.RequestJob(t.Context(), gitlab.Ask{Runner: runner, LastUpdate: first.LastUpdate})
	if err != nil || second.Job == nil || second.Job.Info.Name != "later" {
		t.Fatal(second, err)
	}
}

// TestNullIsNothing decodes a job in which everything that can be null is.
func TestNullIsNothing(t *testing.T) {
	t.Parallel()
	var job gitlab.Job
	text := `{"id":1,"token":"t","job_info":null,"git_info":{"refspecs":null,"protected":null},"runner_info":null,"inputs":null,"hooks":null,
"variables":[{"key":"A","value":null,"public":null}],"steps":null,"image":null,"services":[{"name":"a","alias":null,"entrypoint":null,"executor_opts":null,"variables":null,"pull_policy":null}],
"artifacts":null,"cache":[{"key":"k","paths":null,"fallback_keys":null}],"credentials":null,"dependencies":[{"id":2,"artifacts_file":null}],"features":null,
"secrets":{"S":{"vault":null,"file":null,"azure_key_vault":{"name":"x"}}},"run":null,"policy_options":null,"something_new":{"a":1}}`
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(job.Variables, job.Secrets["S"].Others, job.Dependencies[0].ArtifactsFile == nil); got != "[{A  false false false false}] [azure_key_vault] true" {
		t.Error(got)
	}
}

func TestOptionsOfImages(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"docker":{"user":1000,"platform":"linux/arm64"}}`: "{{linux/arm64 1000} {} []}",
		`{"docker":{"user":"me"},"kubernetes":{"user":0}}`:  "{{ me} {0} []}",
		`{"docker":{"gpus":"all"}}`:                         "{{ } {} [docker.gpus]}",
		`{"podman":{}}`:                                     "{{ } {} [podman]}",
		`null`:                                              "{{ } {} []}",
		`{"docker":{"user":null}}`:                          "{{ } {} []}",
	} {
		var o gitlab.ImageOptions
		if err := json.Unmarshal([]byte(text), &o); err != nil || fmt.Sprint(o) != want {
			t.Errorf("%s: %v, %v", text, o, err)
		}
	}
}

// TestExitCodes is case 76.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]int32{0: 0, 1: 1, -1: -1, 4294967295: -1, 3221225477: -1073741819} {
		if got := gitlab.ExitCode(code); got != want {
			t.Errorf("%d: %d", code, got)
		}
	}
}

// FuzzJob holds that whatever a server sends is an error or a job.
func FuzzJob(f *testing.F) {
	f.Add(`{"id":1,"token":"t","image":{"name":"a","executor_opts":{"docker":{"user":1}}},"secrets":{"A":{"vault":{}}}}`)
	f.Add(`{"services":[{"executor_opts":[]}]}`)
	f.Fuzz(func(_ *testing.T, text string) {
		var job gitlab.Job
		_ = json.Unmarshal([]byte(text), &job)
	})
}
