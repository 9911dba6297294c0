package main

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// githubapi starts a server that answers as GitHub's API does about any repository, and sets GITHUB_API_URL. A repository called "moved" has
// another name by now.
//
//	githubapi TOKEN
func githubapi(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: githubapi TOKEN")
	}
	number := func(text string) uint32 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(text))
		return h.Sum32()/2 + 1
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.Path, "/repos/")
		owner, repository, _ := strings.Cut(name, "/")
		if !ok || r.Header.Get("Authorization") != "Bearer "+args[0] {
			http.NotFound(w, r)
			return
		}
		full := owner + "/" + repository
		if repository == "moved" {
			full += "-away"
		}
		fmt.Fprintf(w, `{"id": %d, "full_name": %q, "owner": {"id": %d}}`, number(name), full, number(owner))
	}))
	ts.Defer(server.Close)
	ts.Setenv("GITHUB_API_URL", server.URL)
}
