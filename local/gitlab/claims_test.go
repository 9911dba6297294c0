package gitlab_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest/forged"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
)

const leavesAll = "build:\n  image: forged\n  script: [make]\n  cache: {key: k, paths: [x]}\n  artifacts: {paths: [x]}\n  release: {tag_name: v2, description: d}\n  pages: true\n"

func TestNothingIsTakenOfAStepThatDidNotSucceed(t *testing.T) {
	steps := []forged.Claim{
		{Name: "save_cache", Ref: "builtin://cache/save", Outputs: saved}, {Name: "upload_artifacts", Ref: "builtin://artifacts/upload"},
		{Name: "release", Ref: "builtin://release"}, {Name: "pages", Ref: "builtin://pages"},
	}
	for name, tell := range map[string]func(id string, c forged.Claim) []event.Event{
		"it was not run": func(string, forged.Claim) []event.Event { return nil },
		"it failed": func(id string, c forged.Claim) []event.Event {
			told := forged.Step(id, c)
			told[len(told)-1].Body = event.StepFinished{Status: event.Failure, Outputs: c.Outputs}
			return told
		},
		"it was a step of another step": func(id string, c forged.Claim) []event.Event { return forged.Step("9."+id, c) },
		"it was another component":      func(id string, c forged.Claim) []event.Event { c.Name = "other"; return forged.Step(id, c) },
	} {
		t.Run(name, func(t *testing.T) {
			var f *forgery
			f = newForgery(t, leavesAll, func(env *forged.Environment) []event.Event {
				told := f.lie(env, map[string]string{
					cacheAt + "k-non_protected/cache.zip": "x", artifactsAt + "artifacts.zip": "x", releasesAt + "v2.json": "x", pagesAt + "index.html": "x",
				})
				for i, c := range steps {
					told = append(told, tell(string(rune('1'+i)), c)...)
				}
				return told
			})
			f.run(t.Context())
			for _, folder := range []string{"cache", "artifacts", "releases", "pages"} {
				for file := range f.kept(folder) {
					if filepath.Base(file) != "latest.json" {
						t.Errorf("%s holds %s", folder, file)
					}
				}
			}
		})
	}
}

func TestWhatACacheHoldsBesideItsArchiveIsSmallAndWhatIsNotSavedStays(t *testing.T) {
	for name, c := range map[string]struct {
		saved bool
		mark  int
		want  map[string]string
	}{
		"a mark":                {true, 3, map[string]string{"k-non_protected/cache.zip": "x", "k-non_protected/cache.mark": "mmm"}},
		"too large a mark":      {true, 1 << 20, map[string]string{"k-non_protected/cache.zip": "x"}},
		"one that is as it was": {false, 3, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			var f *forgery
			f = newForgery(t, leavesAll, func(env *forged.Environment) []event.Event {
				files := map[string]string{cacheAt + "k-non_protected/cache.zip": "x", cacheAt + "k-non_protected/cache.mark": strings.Repeat("m", c.mark)}
				return f.lie(env, files, forged.Claim{Name: "save_cache", Ref: "builtin://cache/save", Outputs: map[string]value.Value{"saved": value.OfBool(c.saved)}})
			})
			f.run(t.Context())
			if diff := cmp.Diff(c.want, f.kept("cache")); diff != "" {
				t.Errorf("the caches (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsKeptIsNoProgramAndDeploymentsAreThoseOfTheHost(t *testing.T) {
	var f *forgery
	f = newForgery(t, leavesAll, func(env *forged.Environment) []event.Event {
		told := f.lie(env, map[string]string{artifactsAt + "artifacts.zip": "x", pagesAt + "index.html": "x", pagesAt + ".deployments": "other\n"},
			forged.Claim{Name: "upload_artifacts", Ref: "builtin://artifacts/upload"}, forged.Claim{Name: "pages", Ref: "builtin://pages"})
		if err := os.Chmod(env.Path(artifactsAt+"artifacts.zip"), 0o777); err != nil {
			t.Error(err)
		}
		return told
	})
	f.run(t.Context())
	if diff := cmp.Diff(map[string]string{"index.html": "x"}, f.kept("pages")); diff != "" {
		t.Errorf("the pages (-want +got):\n%s", diff)
	}
	found, _ := filepath.Glob(filepath.Join(f.dir, ".rung", "artifacts", "build", "*", "artifacts.zip"))
	if len(found) != 1 {
		t.Fatalf("kept are %q", found)
	}
	if info, err := os.Stat(found[0]); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestWhatAStoppedJobLeavesIsFetchedUnlessItIsKilled(t *testing.T) {
	for name, killed := range map[string]bool{"it is stopped": false, "it is killed while files are fetched": true} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			kill := make(chan struct{})
			var f *forgery
			f = newForgery(t, strings.Replace(keeps, "1s", "1h", 1), func(env *forged.Environment) []event.Event {
				cancel(&event.Stop{Code: event.CodeInterrupted, Reason: "interrupted"})
				told := f.lie(env, map[string]string{artifactsAt + "artifacts.zip": "x"}, forged.Claim{Name: "upload_artifacts", Ref: "builtin://artifacts/upload"})
				return append(told, event.Event{Body: event.RunFinished{Status: event.Cancelled, Error: event.NewError(event.CodeInterrupted, "interrupted")}})
			})
			why := make(chan error, 1)
			if killed {
				f.level.Fetch = func(inner context.Context, path string, out io.Writer) error {
					close(kill)
					err := endless(inner, path, out)
					why <- err
					return err
				}
			}
			p, err := gitlab.Open(t.Context(), gitlab.Options{Dir: f.dir, Env: os.Environ()})
			if err != nil {
				t.Fatal(err)
			}
			container := func() (executor.Executor, error) { return f.level, nil }
			r := p.Run(ctx, gitlab.RunOptions{Jobs: p.Pipeline.Jobs, Options: local.Options{
				Isolation: local.IsolateContainer, Container: container, Observer: &local.Notes{}, Kill: kill,
			}})[0]
			found, _ := filepath.Glob(filepath.Join(f.dir, ".rung", "artifacts", "build", "*", "artifacts.zip"))
			if r.Status != local.Cancelled || (len(found) == 0) != killed {
				t.Errorf("it is %s: %+v, and kept are %q", r.Status, r.Error, found)
			}
			if !killed {
				return
			}
			var stop *event.Stop
			if err := <-why; !errors.As(err, &stop) || stop.Code != event.CodeKilled { // and not by its time limit
				t.Errorf("fetching ended by %v", err)
			}
		})
	}
}

func TestWhatAJobBringsBackIsBounded(t *testing.T) {
	allowed := session.Allowance
	session.Allowance.Bytes, session.Allowance.Entries = 1<<20, 100
	defer func() { session.Allowance = allowed }()
	for name, fill := range map[string]func(*tar.Writer) error{
		"bytes": func(w *tar.Writer) error {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "artifacts.zip", Size: 2 << 20, Mode: 0o600}); err != nil {
				return err
			}
			_, err := w.Write(make([]byte, 2<<20))
			return err
		},
		"entries": func(w *tar.Writer) error {
			for range 1000 {
				if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "artifacts.zip/", Mode: 0o700}); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var f *forgery
			f = newForgery(t, keeps, uploaded(&f))
			f.level.Fetch = func(_ context.Context, _ string, out io.Writer) error {
				w := tar.NewWriter(out)
				if err := fill(w); err != nil {
					return err
				}
				return w.Close()
			}
			r := f.run(t.Context())[0]
			if r.Status != local.Failed || r.Error == nil || r.Error.Kind != event.ErrorDefinition || len(f.kept("incoming")) > 0 {
				t.Errorf("it is %s: %+v, and there are left %v", r.Status, r.Error, f.kept("incoming"))
			}
		})
	}
}
