package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/source/sourcetest"
)

// The certificates of a GitLab with a CA of its own hold for its address, in this step and in the job's own git commands later.
func TestAServerWithACAOfItsOwn(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{TLS: true})
	inBothWays(t, func(t *testing.T, newJob func(*testing.T) *job) {
		file := filepath.Join(t.TempDir(), `a "CA".pem`)
		writeFile(t, file, string(s.Certificate()))
		for name, more := range map[string]map[string]any{
			"fetch":                nil,
			"clone":                {"strategy": "clone"},
			"clone with flags":     {"strategy": "clone", "clone_flags": []string{"--no-tags"}},
			"a kept configuration": {"clean_config": false},
		} {
			t.Run(name, func(t *testing.T) {
				j := newJob(t)
				in := map[string]any{"url": s.project(), "ref": "main", "ca_file": file}
				for name, v := range more {
					in[name] = v
				}
				for range 2 { // the second job finds what the first one has left
					if got := j.must(in); got != s.main {
						t.Errorf("checked out %s", got)
					}
					j.git("fetch", "origin", "main")
				}
			})
		}
		for name, ca := range map[string]string{"": "", "ca_file: open ": filepath.Join(t.TempDir(), "none"), "has no certificates": filepath.Join(s.repos, "project.git", "HEAD")} {
			j := newJob(t)
			_, err := j.run(map[string]any{"url": s.project(), "ref": "main", "ca_file": ca})
			if err == nil || j.gitless && !strings.Contains(err.Error(), name) {
				t.Errorf("%q: %v", ca, err)
			}
		}
		j := newJob(t)
		in := map[string]any{"url": s.project(), "ref": "main", "ca_file": file}
		j.must(in)
		config, err := os.ReadFile(filepath.Join(j.dir, ".git", "config"))
		if err != nil || strings.Count(string(config), "[http ") != 1 || !strings.Contains(string(config), `[http "`+s.URL+`"]`) {
			t.Errorf("%v\n%s", err, config)
		}
	})
}

// A submodule on another server is fetched as without the certificates.
func TestCertificatesAreForOneServer(t *testing.T) {
	t.Parallel()
	s, other := serve(t, sourcetest.GitOptions{TLS: true}), serve(t, sourcetest.GitOptions{TLS: true})
	file := filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, file, string(other.Certificate())) // which is that of both
	repo := s.repository(t, "outer")
	must[string](t)(repo.Push("main", "one", map[string]sourcetest.GitFile{
		".gitmodules": {Content: "[submodule \"inner\"]\n\tpath = inner\n\turl = " + other.project() + "\n"}, "inner": {Mode: "160000", Content: other.main},
	}))
	inBothWays(t, func(t *testing.T, newJob func(*testing.T) *job) {
		_, err := newJob(t).run(map[string]any{"url": s.URL + "/outer.git", "ref": "main", "ca_file": file, "submodules": "normal"})
		if err == nil || !strings.Contains(err.Error(), "submodules") {
			t.Errorf("error %v", err)
		}
	})
}
