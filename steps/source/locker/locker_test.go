package locker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/git"
	"github.com/rungci/rung/steps/source/lock"
	"github.com/rungci/rung/steps/source/locker"
	"github.com/rungci/rung/steps/source/sourcetest"
)

const step = "spec: {}\n---\nexec: {command: [echo]}\n"

// world is a project, and repositories and archives beside it.
type world struct {
	dir   string
	repo  *sourcetest.GitRepo
	cache *cache.Cache
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	repo, err := sourcetest.NewGitRepo(filepath.Join(dir, "repo.git"))
	if err != nil {
		t.Fatal(err)
	}
	return &world{dir: dir, repo: repo, cache: cache.New(filepath.Join(dir, "cache"))}
}

// commit moves a branch of the repository to new files, and returns the commit.
func (w *world) commit(t *testing.T, branch string, files map[string]string) string {
	t.Helper()
	content := map[string]sourcetest.GitFile{}
	for name, text := range files {
		content[name] = sourcetest.GitFile{Content: text}
	}
	hash, err := w.repo.Push(branch, "a commit", content)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func (w *world) resolver(t *testing.T, old *lock.File, fresh, offline bool) *source.Resolver {
	t.Helper()
	return &source.Resolver{
		Local: &source.Local{Parse: gitlabsteps.ParseFile, WorkDir: w.dir}, Cache: w.cache, Lock: old, Fresh: fresh, Offline: offline,
		Folder: t.TempDir(), WorkDir: w.dir,
		Fetchers: map[plan.RefKind]source.Fetcher{plan.RefGit: &git.Fetcher{Cache: w.cache}, plan.RefArchive: &archive.Fetcher{Cache: w.cache}},
	}
}

// lock locks a list of steps.
func (w *world) lock(t *testing.T, text string, old *lock.File, fresh bool) *locker.Locker {
	t.Helper()
	text = strings.ReplaceAll(text, "DIR", filepath.ToSlash(w.dir))
	definition, err := gitlabsteps.ParseSteps("steps.yml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	l := &locker.Locker{Source: w.resolver(t, old, fresh, false), Old: old, Variant: func(plan.RefKind) string { return "" }}
	if err := l.Definition(t.Context(), definition, []byte(text), w.dir); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestEverythingThatIsFetchedIsLocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.commit(t, "v1", map[string]string{
		"steps/a/step.yml": "spec: {}\n---\nrun:\n  - step: ../b\n  - step: ./${{ job.x }}\n", "steps/b/step.yml": step,
	})
	if err := os.MkdirAll(filepath.Join(w.dir, "local"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "local", "step.yml"), []byte("spec: {}\n---\nrun:\n  - step: file://"+filepath.ToSlash(w.dir)+"/repo.git/-/b@v1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	zip, err := sourcetest.Zip(filepath.Join(w.dir, "local"), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "x.zip"), zip, 0o644); err != nil {
		t.Fatal(err)
	}
	l := w.lock(t, "- step: file://DIR/repo.git/-/a@v1\n- step: ./local\n- step: ./x.zip\n- step: ./made/later\n- step: ${{ job.y }}\n", nil, false)
	text, err := l.New.Encode()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := lock.Parse("steps.lock", text)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range parsed.Packages {
		for _, c := range p.Components {
			got = append(got, strings.Join([]string{string(p.Kind), strings.ReplaceAll(p.URL, filepath.ToSlash(w.dir), "DIR"), p.Rev, strings.ReplaceAll(c.Reference, filepath.ToSlash(w.dir), "DIR"), c.Path, c.File}, " "))
		}
		if p.Kind == plan.RefGit && p.Pin != commit {
			t.Errorf("the pin is %s, want %s", p.Pin, commit)
		}
	}
	want := []string{
		"archive ./x.zip  ./x.zip  step.yml",
		"git file://DIR/repo.git v1 file://DIR/repo.git/-/a@v1 steps/a step.yml",
		"git file://DIR/repo.git v1 file://DIR/repo.git/-/a@v1 steps/b step.yml",
		"git file://DIR/repo.git v1 file://DIR/repo.git/-/b@v1 steps/b step.yml",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var warnings []string
	for _, d := range l.Warnings {
		warnings = append(warnings, strings.ReplaceAll(d.Span.String(), filepath.ToSlash(w.dir), "DIR")+" "+d.Source)
	}
	want = []string{
		`file://DIR/repo.git/-/a@v1 (step.yml):5:11   - step: ./${{ job.x }}`,
		`steps.yml:4:9 - step: ./made/later`,
		`steps.yml:5:9 - step: ${{ job.y }}`,
	}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Error(diff)
	}
}

func TestALockFileStaysAsItIsUntilItIsUpdated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const steps = "- step: file://DIR/repo.git/-/a@v1\n"
	first := w.commit(t, "v1", map[string]string{"steps/a/step.yml": step})
	old := w.lock(t, steps, nil, false).New
	second := w.commit(t, "v1", map[string]string{"steps/a/step.yml": step, "new": "x"})

	kept := w.lock(t, steps, &old, false).New
	if diff := cmp.Diff(old, kept); diff != "" || kept.Packages[0].Pin != first {
		t.Error(diff)
	}
	now := w.lock(t, steps, nil, true).New
	if now.Packages[0].Pin != second {
		t.Errorf("the pin is %s, want %s", now.Packages[0].Pin, second)
	}
	if diff := cmp.Diff([]locker.Difference{{Change: locker.Moved, Reference: old.Packages[0].URL + "@v1", Was: first, Is: second}}, locker.Compare(&old, &now)); diff != "" {
		t.Error(diff)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	pkg := func(rev, pin, content, platform string, components ...lock.Component) lock.Package {
		return lock.Package{Kind: plan.RefOCI, URL: "oci://r.example/p", Rev: rev, Pin: pin, Content: content, Platform: platform, Components: components}
	}
	a, changed, b := lock.Component{Reference: "a", Path: "a", File: "step.yml", Digest: "1"}, lock.Component{Reference: "a", Path: "a", File: "step.yml", Digest: "2"}, lock.Component{Reference: "b", File: "step.yml", Digest: "3"}
	for _, tc := range []struct {
		name     string
		old, now []lock.Package
		want     []string
	}{
		{"the same", []lock.Package{pkg("1", "p", "c", "", a)}, []lock.Package{pkg("1", "p", "c", "", a)}, nil},
		{"a package that is missing", nil, []lock.Package{pkg("1", "p", "c", "", a)}, []string{"missing: oci://r.example/p@1, is p"}},
		{"one that nothing refers to", []lock.Package{pkg("1", "p", "c", "", a)}, nil, []string{"unused: oci://r.example/p@1"}},
		{"a component that is missing", []lock.Package{pkg("1", "p", "c", "", a)}, []lock.Package{pkg("1", "p", "c", "", a, b)}, []string{"missing: b (step.yml), is 3"}},
		{"a name that moved", []lock.Package{pkg("1", "p", "c", "", a)}, []lock.Package{pkg("1", "q", "d", "", a)}, []string{"moved: oci://r.example/p@1, was p, is q"}},
		{"content that changed", []lock.Package{pkg("1", "p", "c", "", a)}, []lock.Package{pkg("1", "p", "d", "", a)}, []string{"changed: oci://r.example/p@1, was c, is d"}},
		{"a component that changed", []lock.Package{pkg("1", "p", "c", "", a)}, []lock.Package{pkg("1", "p", "c", "", changed)}, []string{"changed: a, was 1, is 2"}},
		{"another platform", []lock.Package{pkg("1", "p", "c", "linux/amd64", a)}, []lock.Package{pkg("1", "p", "d", "linux/arm64", changed)}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, d := range locker.Compare(&lock.File{Packages: tc.old}, &lock.File{Packages: tc.now}) {
				got = append(got, d.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAPackageThatWasLockedOnAnotherPlatformStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pin := w.commit(t, "v1", map[string]string{"steps/a/step.yml": step, "steps/b/step.yml": step})
	l := w.lock(t, "- step: file://DIR/repo.git/-/a@v1\n", nil, false)
	old := l.New
	old.Packages[0].Platform, old.Packages[0].Content = "windows/amd64", "sha256:other"
	old.Packages[0].Components[0].Digest = "sha256:other"
	again := w.lock(t, "- step: file://DIR/repo.git/-/a@v1\n- step: file://DIR/repo.git/-/b@v1\n", &old, false).New
	if diff := cmp.Diff(old, again); diff != "" || again.Packages[0].Pin != pin {
		t.Error(diff)
	}
}

func TestAReferenceThatLeadsNowhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(t, "v1", map[string]string{"steps/a/step.yml": step})
	ref, err := gitlabsteps.ParseStaticReference("file://me:s3cr3t@localhost"+filepath.ToSlash(w.dir)+"/none.git/-/a@v1", diag.Span{})
	if err != nil {
		t.Fatal(err)
	}
	l := &locker.Locker{Source: w.resolver(t, nil, false, true), Variant: func(plan.RefKind) string { return "" }}
	if err := l.Reference(t.Context(), ref, w.dir); err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("got %v", err)
	}
	l = &locker.Locker{Source: w.resolver(t, nil, false, true), KeepGoing: true, Variant: func(plan.RefKind) string { return "" }}
	if err := l.Reference(t.Context(), ref, w.dir); err != nil || len(l.Failures) != 1 || strings.Contains(l.Failures[0].Reference, "s3cr3t") {
		t.Errorf("got %v, %+v", err, l.Failures)
	}
}
