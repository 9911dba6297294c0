package payload_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/payload"
)

// FuzzPayload reads anything as the job that GitLab hands out: nothing in it ends the program, and what can be read is a job that runs or fails.
func FuzzPayload(f *testing.F) {
	for _, text := range []string{
		`{"id":1,"token":"t"}`, `{"id":1,"token":"t","variables":[null,{"key":"A","value":"$A$B"}],"steps":[null,{"name":"script","script":["true",""]}]}`,
		`{"id":1,"token":"t","run":"[{\"name\":\"a\",\"script\":\"${{ env.A }}\"}]","inputs":[{"key":"x","value":{"type":"array","content":[[[]]]}}]}`,
		`{"id":1,"token":"t","image":{"name":"$A","executor_opts":{"docker":{"user":0}}},"services":[{"name":"","alias":", ,a"}]}`,
		`{"id":1,"token":"t","cache":[{"key":"../%2e%2e/x","paths":["../..","/"],"policy":"x"}],"artifacts":[{"paths":["**"],"artifact_type":"junit"}]}`,
		`{"id":1,"token":"t","secrets":{"A":{"vault":{"server":{"auth":{"name":"jwt","data":{"jwt":1}}}}}},"git_info":{"repo_url":"::","depth":-1}}`,
		`{"id":1,"token":"t","variables":{}}`, `{"id":9223372036854775807,"token":"t","runner_info":{"timeout":9223372036854775807}}`, `[]`, `{"id":"1"}`, "\xff",
	} {
		f.Add([]byte(text))
	}
	answer := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(<-answer)
	}))
	f.Cleanup(server.Close)
	api, err := gitlab.New(gitlab.Options{URL: server.URL})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		answer <- body
		got, err := api.RequestJob(t.Context(), gitlab.Ask{Runner: gitlab.Runner{Token: "r"}})
		if err != nil {
			return // nobody can say whose job it is
		}
		from := got.Job
		if from.ID <= 0 || from.Token == "" {
			t.Fatalf("a job without an identity: %+v", from)
		}
		j, err := payload.New(from, payload.Runner{API: server.URL + "/api/v4", Image: "busybox"})
		if from.Unreadable != "" && err == nil {
			t.Fatal("a job that cannot be read can run")
		}
		if err != nil {
			_ = j.Hide(err.Error())
			return
		}
		for _, images := range []bool{true, false} {
			if what, err := j.Place(images); err == nil {
				if err := what.Validate(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if j.Timeout() <= 0 {
			t.Fatalf("it has %s", j.Timeout())
		}
		_ = j.Identity()
		compiled, err := j.Compile(payload.Where{Folders: payload.Folders{Project: "/b/p", Builds: "/b", Temp: "/b/p.tmp"}, Caches: "/caches"})
		if err != nil {
			return
		}
		if _, err := json.Marshal(compiled.Plan); err != nil {
			t.Fatal(err)
		}
		for _, saved := range compiled.Results.Saved {
			if strings.HasPrefix(saved.Key, "/") || strings.HasPrefix(saved.Key+"/", "../") || strings.Contains("/"+saved.Key+"/", "/../") {
				t.Fatalf("a cache is kept as %q", saved.Key)
			}
		}
	})
}
