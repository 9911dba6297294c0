package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestNothingIsMadeUntilSomethingIsKept(t *testing.T) {
	project := t.TempDir()
	s := Open(project)
	if _, err := s.Latest("build"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking for what is not there gives %v", err)
	}
	if entries, _ := os.ReadDir(project); len(entries) != 0 {
		t.Errorf("there is %v", entries)
	}
}

func TestGitIgnoresAllButTheSettings(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("needs git: ", err)
	}
	project := t.TempDir()
	if out, err := exec.Command(git, "init", "-q", project).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := Open(project)
	if _, err := s.Artifacts("build", "1"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"variables.yml", "sources.toml", "artifacts/build/1/a.zip"} {
		if err := os.WriteFile(filepath.Join(s.Root(), name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(git, "-C", project, "status", "--porcelain", "-uall").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.TrimSpace(string(out)), "?? .rung/sources.toml\n?? .rung/variables.yml"; got != want {
		t.Errorf("git sees\n%s\nnot\n%s", got, want)
	}
}

func TestTheLastRunCounts(t *testing.T) {
	s := Open(t.TempDir())
	var last string
	for i := range keptRuns + 1 {
		run := fmt.Sprintf("%016x-%d", i, 1) // of long ago
		dir, err := s.Artifacts("build", run)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a.zip"), []byte(run), 0o600); err != nil {
			t.Fatal(err)
		}
		last = run
		if err := s.Keep(&Manifest{Job: "build", Run: run, Archive: "a.zip", Reports: []Report{{"dotenv", "x.gz"}}}); err != nil {
			t.Fatal(err)
		}
	}
	m, err := s.Latest("build")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(m.ArchivePath()); err != nil || string(data) != last {
		t.Errorf("the archive holds %q, %v", data, err)
	}
	if got := m.ReportPaths("dotenv"); len(got) != 1 || filepath.Base(got[0]) != "x.gz" {
		t.Errorf("the reports are %v", got)
	}
	entries, _ := os.ReadDir(filepath.Dir(filepath.Dir(m.ArchivePath())))
	if len(entries) != keptRuns+1 {
		t.Errorf("%d entries are left, not the last %d runs and latest.json", len(entries), keptRuns)
	}
}

func TestRunsOfLatelyAreKept(t *testing.T) {
	s := Open(t.TempDir())
	for range keptRuns + 2 { // as when a job runs again and again beside a pipeline that reads its first artifacts
		run := NewRun()
		if _, err := s.Artifacts("build", run); err != nil {
			t.Fatal(err)
		}
		if err := s.Keep(&Manifest{Job: "build", Run: run}); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(s.Root(), "artifacts", Slug("build")))
	if err != nil || len(entries) != keptRuns+3 {
		t.Errorf("%d entries are left (%v), not all runs and latest.json", len(entries), err)
	}
}

func TestAManifestCannotLeadOutOfItsFolder(t *testing.T) {
	s := Open(t.TempDir())
	if err := s.Keep(&Manifest{Job: "build", Run: "1", Archive: "../../x.zip"}); err == nil {
		t.Error("it is kept")
	}
	dir, err := s.Artifacts("build", "1")
	if err != nil {
		t.Fatal(err)
	}
	latest := filepath.Join(filepath.Dir(dir), latestFile)
	for _, text := range []string{`{"run": "../.."}`, `{"run": "1", "archive": "../x"}`, `{"run": "1", "reports": [{"file": "/etc/passwd"}]}`, `{`} {
		if err := os.WriteFile(latest, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Latest("build"); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

func TestEveryNameHasASlugOfItsOwn(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"build", "Build", "build/x", "build-x", "build x", "../x", "..", ".", "", "é", strings.Repeat("x", 300), strings.Repeat("x", 301), "test: [a, b]"} {
		slug := Slug(name)
		if other, there := seen[slug]; there {
			t.Errorf("%q and %q are both %q", name, other, slug)
		}
		seen[slug] = name
		if !filepath.IsLocal(slug) || strings.ContainsAny(slug, "/\\: ") || slug == "." {
			t.Errorf("the slug of %q is %q", name, slug)
		}
	}
	if Slug("build") != "build" {
		t.Error("a plain name does not stay")
	}
}

func TestAResourceGroupHasOneHolder(t *testing.T) {
	s := Open(t.TempDir())
	var wg sync.WaitGroup
	var mu sync.Mutex
	inside, most := 0, 0
	for range 8 {
		wg.Go(func() {
			release, err := s.Lock(t.Context(), "production", func() {})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			inside++
			most = max(most, inside)
			mu.Unlock()
			mu.Lock()
			inside--
			mu.Unlock()
			release()
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d jobs held the group at a time", most)
	}
}

func TestWaitingForAResourceGroupEndsWithItsContext(t *testing.T) {
	s := Open(t.TempDir())
	release, err := s.Lock(t.Context(), "production", func() {})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	told := false
	if _, err := s.Lock(ctx, "production", func() { told = true; cancel() }); !errors.Is(err, context.Canceled) || !told {
		t.Errorf("it gives %v, told %v", err, told)
	}
	other, err := s.Lock(t.Context(), "staging", func() { t.Error("another group is waited for") })
	if err != nil {
		t.Fatal(err)
	}
	other()
	release()
	again, err := s.Lock(t.Context(), "production", func() {})
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestDeploymentsAndKeysAreRecorded(t *testing.T) {
	s := Open(t.TempDir())
	if err := s.Deployed(Deployment{Environment: "review/x", Finished: time.Now()}); err != nil {
		t.Fatal(err)
	}
	path, err := s.WriteKeys(map[string]any{"keys": []any{}})
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), `"keys"`) {
		t.Errorf("the keys are %q, %v", data, err)
	}
}

func TestAChildPipelineHasItsOwnArtifactsAndTheProjectsCaches(t *testing.T) {
	s := Open(t.TempDir())
	child := s.Child("trigger")
	if child.jobFolder("a") == s.jobFolder("a") {
		t.Error("the artifacts are in one place")
	}
	a, _ := s.Cache()
	if b, _ := child.Cache(); a != b {
		t.Error("the caches are in two places")
	}
}

// outside is a folder that is none of a project's, with folders and a file in it. check fails when it is not as it was.
func outside(t *testing.T) (dir string, check func()) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"alpha", "beta", "gamma", "delta"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir, func() {
		t.Helper()
		var names []string
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if got, want := strings.Join(names, " "), "alpha beta delta gamma"; got != want {
			t.Errorf("outside of the project there is %q, not %q", got, want)
		}
	}
}

func TestTheStoreDoesNotFollowLinksOutOfTheProject(t *testing.T) {
	for name, link := range map[string]string{
		"the store":           Folder,
		"artifacts":           Folder + "/artifacts",
		"the folder of a job": Folder + "/artifacts/build",
		"traces":              Folder + "/traces",
		"caches":              Folder + "/cache",
	} {
		t.Run(name, func(t *testing.T) {
			elsewhere, unchanged := outside(t)
			project := t.TempDir()
			path := filepath.Join(project, filepath.FromSlash(link))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(elsewhere, path); err != nil {
				t.Skip("needs symbolic links: ", err)
			}
			s := Open(project)
			_, artifacts := s.Artifacts("build", NewRun())
			keep := s.Keep(&Manifest{Job: "build", Run: NewRun(), Archive: "a.zip"})
			_, latest := s.Latest("build")
			_, trace := s.Trace("build")
			_, cache := s.Cache()
			refused := 0
			for _, err := range []error{artifacts, keep, latest, trace, cache} {
				if err != nil && strings.Contains(err.Error(), "symbolic link") {
					refused++
				}
			}
			if refused == 0 {
				t.Errorf("nothing is refused: %v, %v, %v, %v, %v", artifacts, keep, latest, trace, cache)
			}
			unchanged()
		})
	}
}

func TestOnlyRunsAreEverRemoved(t *testing.T) {
	dir, unchanged := outside(t)
	if err := prune(dir); err != nil {
		t.Fatal(err)
	}
	unchanged()
}

func TestAFileWhereTheStoreShouldBeIsSaid(t *testing.T) {
	project := t.TempDir()
	if err := os.WriteFile(filepath.Join(project, Folder), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(project).Cache(); err == nil || !strings.Contains(err.Error(), "is not a folder") {
		t.Errorf("the error is %v", err)
	}
}
