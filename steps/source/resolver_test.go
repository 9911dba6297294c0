package source_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/lock"
	"github.com/rungci/rung/steps/source/tree"
)

// server is a place with packages, and a Fetcher for it. It counts what is asked.
type server struct {
	mu       sync.Mutex
	names    map[string]string            // revision to pin
	packages map[string]map[string]string // pin to files
	down     bool
	resolved []string
	fetched  []string
}

func newServer() *server {
	return &server{
		names: map[string]string{"v1": "pin1", "v2": "pin2"},
		packages: map[string]map[string]string{
			"pin1": {"steps/hello/step.yml": "hello 1", "steps/other/func.yml": "other 1", "root/step.yml": "root 1", "lib.sh": "echo"},
			"pin2": {"steps/hello/step.yml": "hello 2"},
		},
	}
}

func (s *server) Variant() string { return "" }

func (s *server) Resolve(_ context.Context, at *source.Location) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resolved = append(s.resolved, at.Rev)
	if s.down {
		return "", &source.FetchError{What: at.Name, Err: errors.New("the network is down")}
	}
	if pin, ok := s.names[at.Rev]; ok {
		return pin, nil
	}
	return "", &source.NotFoundError{Ref: at.Name + "@" + at.Rev}
}

func (s *server) Fetch(_ context.Context, at *source.Location, pin string, to *tree.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetched = append(s.fetched, pin)
	if s.down {
		return &source.FetchError{What: at.Name, Err: errors.New("the network is down")}
	}
	for _, name := range slices.Sorted(maps.Keys(s.packages[pin])) {
		content := s.packages[pin][name]
		if err := to.AddFile(name, false, int64(len(content)), strings.NewReader(content)); err != nil {
			return err
		}
	}
	return nil
}

// resolver makes a Resolver for one run.
func (s *server) resolver(t *testing.T, cacheDir string, change ...func(*source.Resolver)) *source.Resolver {
	t.Helper()
	t.Cleanup(func() { unprotect(t, cacheDir) })
	r := &source.Resolver{
		Local:    local(),
		Fetchers: map[plan.RefKind]source.Fetcher{plan.RefGit: s},
		Cache:    cache.New(cacheDir),
		Folder:   t.TempDir(),
		WorkDir:  t.TempDir(),
	}
	for _, c := range change {
		c(r)
	}
	return r
}

// git makes a reference as the short form host/p/-/path@rev does.
func git(rev string, path ...string) *plan.Reference {
	return &plan.Reference{Kind: plan.RefGit, Text: "host/p/-/" + strings.Join(path, "/") + "@" + rev, URL: "https://user:secret@host/p", Rev: rev,
		Path: append([]string{"steps"}, path...), OrRoot: true}
}

func load(t *testing.T, r *source.Resolver, ref *plan.Reference, from string) *source.Component {
	t.Helper()
	got, err := r.Load(t.Context(), ref, from)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAComponentFromElsewhere(t *testing.T) {
	t.Parallel()
	s := newServer()
	r := s.resolver(t, t.TempDir())
	got := load(t, r, git("v1", "hello"), r.WorkDir)
	t.Run("has its plan, folder and digest", func(t *testing.T) {
		if got.Plan.Spec.Description != "hello 1" || got.File != "step.yml" || got.Ref != "host/p/-/hello@v1" {
			t.Errorf("loaded %+v", got)
		}
		if want := tree.FileDigest("step.yml", []byte("hello 1")); got.Digest != want {
			t.Errorf("the digest is %s, want %s", got.Digest, want)
		}
	})
	t.Run("says where it is from, without credentials", func(t *testing.T) {
		want := &plan.Origin{Kind: plan.RefGit, URL: "https://host/p", Rev: "v1", Pin: "pin1", Path: "steps/hello", Package: got.Origin.Package}
		if diff := cmp.Diff(want, got.Origin); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("is looked for in steps, then at the root", func(t *testing.T) {
		if got := load(t, r, git("v1", "root"), r.WorkDir); got.Origin.Path != "root" {
			t.Errorf("found in %q", got.Origin.Path)
		}
		var missing *source.NotFoundError
		if _, err := r.Load(t.Context(), git("v1", "nowhere"), r.WorkDir); !errors.As(err, &missing) || len(missing.Looked) != 4 {
			t.Errorf("the error is %v, want four places that were looked at", err)
		}
	})
	t.Run("finds its neighbours in its package", func(t *testing.T) {
		other := load(t, r, ref("", "..", "other"), got.Dir)
		if other.Plan.Spec.Description != "other 1" || other.Origin.Path != "steps/other" || other.Origin.Pin != "pin1" {
			t.Errorf("loaded %+v", other)
		}
	})
	t.Run("cannot refer to what is outside of its package", func(t *testing.T) {
		for _, leave := range []*plan.Reference{ref("", "..", "..", "..", "x"), ref("", "/", "etc"), ref("", "..", "..", "..", "..", "..", "..")} {
			var denied *source.DeniedError
			if _, err := r.Load(t.Context(), leave, got.Dir); !errors.As(err, &denied) {
				t.Errorf("%v: the error is %v, want a DeniedError", leave.Path, err)
			}
		}
	})
	t.Run("cannot name archives and repositories on this machine", func(t *testing.T) {
		for _, leave := range []*plan.Reference{
			{Kind: plan.RefArchive, Text: "./x.zip", URL: "./x.zip"},
			{Kind: plan.RefArchive, Text: "../../../x.zip", URL: "../../../x.zip"},
			{Kind: plan.RefArchive, Text: "/x.zip", URL: "/x.zip"},
			{Kind: plan.RefGit, Text: "x", URL: "file:///srv/x", Rev: "v1"},
			{Kind: plan.RefGit, Text: "x", URL: "FILE:///srv/x", Rev: "v1"},
			{Kind: plan.RefGit, Text: "x", URL: "/srv/x@y", Rev: "v1"},
		} {
			var denied *source.DeniedError
			if _, err := r.Load(t.Context(), leave, got.Dir); !errors.As(err, &denied) {
				t.Errorf("%s: the error is %v, want a DeniedError", leave.URL, err)
			}
		}
	})
	t.Run("was fetched once", func(t *testing.T) {
		if len(s.resolved) != 1 || len(s.fetched) != 1 {
			t.Errorf("resolved %v, fetched %v", s.resolved, s.fetched)
		}
	})
}

func TestAnActionInAPackage(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.packages["pin1"]["act/action.yaml"] = "act 1"
	r := s.resolver(t, t.TempDir())
	r.Local.ParseAction = r.Local.Parse
	from := load(t, r, git("v1", "hello"), r.WorkDir)
	action := func(path string) *plan.Reference {
		return &plan.Reference{Kind: plan.RefAction, Text: path, Action: path}
	}
	t.Run("is a component of it", func(t *testing.T) {
		got := load(t, r, action("./../../act"), from.Dir)
		want := &plan.Origin{Kind: plan.RefGit, URL: "https://host/p", Rev: "v1", Pin: "pin1", Path: "act", Package: from.Origin.Package}
		if diff := cmp.Diff(want, got.Origin); diff != "" || got.Digest != tree.FileDigest("action.yaml", []byte("act 1")) {
			t.Errorf("its digest is %s, its origin:\n%s", got.Digest, diff)
		}
	})
	t.Run("can be at the root of it", func(t *testing.T) {
		if got := load(t, r, action("$/act"), from.Dir); got.Origin == nil || got.Origin.Path != "act" {
			t.Errorf("its origin is %v", got.Origin)
		}
	})
	t.Run("can be in the work directory, where GitHub finds local ones", func(t *testing.T) {
		write(t, filepath.Join(r.WorkDir, "own", "action.yml"), "own")
		if got := load(t, r, action("${{ work_dir }}/own"), from.Dir); got.Origin != nil || string(got.Text) != "own" {
			t.Errorf("it is %q from %v", got.Text, got.Origin)
		}
	})
	t.Run("cannot be outside of both", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "act")
		write(t, filepath.Join(out, "action.yml"), "outside")
		up, err := filepath.Rel(from.Dir, out)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{out, "./" + filepath.ToSlash(up)} {
			var denied *source.DeniedError
			if _, err := r.Load(t.Context(), action(path), from.Dir); !errors.As(err, &denied) {
				t.Errorf("%s: the error is %v, want a DeniedError", path, err)
			}
		}
	})
}

func TestWhereAReferenceWithExpressionsLeads(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"host/steps.zip": "https://host/steps.zip",
		"./steps.zip":    "./steps.zip",
		"../steps.zip":   "file:///work/steps.zip",
		"/srv/steps.zip": "file:///srv/steps.zip",
	} {
		if got := source.LocationOf(&plan.Reference{Kind: plan.RefArchive, URL: url}, "/work/job", "/work/job"); got.Name != want {
			t.Errorf("%s leads to %s, want %s", url, got.Name, want)
		}
	}
}

func TestTheCacheServesTheNextRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newServer()
	first := s.resolver(t, dir)
	load(t, first, git("v1", "hello"), first.WorkDir)

	t.Run("without asking the server again", func(t *testing.T) {
		r := s.resolver(t, dir)
		load(t, r, git("v1", "hello"), r.WorkDir)
		if len(s.resolved) != 1 || len(s.fetched) != 1 {
			t.Errorf("resolved %v, fetched %v", s.resolved, s.fetched)
		}
	})
	t.Run("B15 a branch that moved is seen when names are asked again, and when they are no longer believed", func(t *testing.T) {
		s.names["v1"] = "pin2"
		r := s.resolver(t, dir)
		if got := load(t, r, git("v1", "hello"), r.WorkDir); got.Origin.Pin != "pin1" {
			t.Errorf("within the refresh time it is %s, want the remembered pin1", got.Origin.Pin)
		}
		for name, change := range map[string]func(*source.Resolver){
			"refresh": func(r *source.Resolver) { r.Fresh = true },
			"expired": func(r *source.Resolver) { r.Refresh = time.Nanosecond },
		} {
			r := s.resolver(t, dir, change)
			if got := load(t, r, git("v1", "hello"), r.WorkDir); got.Origin.Pin != "pin2" {
				t.Errorf("%s: it is %s, want pin2", name, got.Origin.Pin)
			}
		}
	})
	t.Run("offline, with what is there", func(t *testing.T) {
		s.down = true
		r := s.resolver(t, dir, func(r *source.Resolver) { r.Offline = true; r.Refresh = time.Nanosecond })
		load(t, r, git("v1", "hello"), r.WorkDir)
		var missing *source.NotFoundError
		if _, err := r.Load(t.Context(), git("v2", "hello"), r.WorkDir); !errors.As(err, &missing) || !strings.Contains(err.Error(), "offline") {
			t.Errorf("the error is %v, want one that says offline", err)
		}
	})
}

func TestWhatWasChangedInTheCacheIsNotRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Cleanup(func() { unprotect(t, dir) })
	s := newServer()
	first := s.resolver(t, dir)
	load(t, first, git("v1", "hello"), first.WorkDir)

	t.Run("an unpacked package that somebody wrote to is not used", func(t *testing.T) {
		unprotect(t, dir)
		files, err := filepath.Glob(filepath.Join(dir, "trees", "*", "steps", "hello", "step.yml"))
		if err != nil || len(files) != 1 {
			t.Fatalf("the unpacked packages are %v (%v)", files, err)
		}
		if err := os.WriteFile(files[0], []byte("h4cked!"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := s.resolver(t, dir)
		if got := load(t, r, git("v1", "hello"), r.WorkDir); got.Plan.Spec.Description != "hello 1" {
			t.Errorf("loaded %q", got.Plan.Spec.Description)
		}
	})
	t.Run("a package that was changed is refused, and fetched again the next time", func(t *testing.T) {
		if err := os.RemoveAll(filepath.Join(dir, "trees")); err != nil {
			t.Fatal(err)
		}
		packs, err := filepath.Glob(filepath.Join(dir, "packages", "*.tar"))
		if err != nil || len(packs) != 1 {
			t.Fatalf("the packages are %v (%v)", packs, err)
		}
		data, err := os.ReadFile(packs[0])
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(data), "hello 1", "h4cked!", 1)
		if err := os.WriteFile(packs[0], []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		r := s.resolver(t, dir)
		var denied *source.DeniedError
		if _, err := r.Load(t.Context(), git("v1", "hello"), r.WorkDir); !errors.As(err, &denied) || !strings.Contains(err.Error(), "changed") {
			t.Fatalf("the error is %v, want a DeniedError about the change", err)
		}
		if got := load(t, r, git("v1", "hello"), r.WorkDir); got.Plan.Spec.Description != "hello 1" {
			t.Errorf("the next time it is %q, want it fetched again", got.Plan.Spec.Description)
		}
	})
}

// unprotect lets a test write to what the cache keeps, and remove it.
func unprotect(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type()&fs.ModeSymlink == 0 {
			err = os.Chmod(path, 0o700)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAStepCannotChangeWhatALaterStepRuns(t *testing.T) {
	t.Parallel()
	s := newServer()
	r := s.resolver(t, t.TempDir())
	got := load(t, r, git("v1", "hello"), r.WorkDir)
	unprotect(t, r.Cache.Dir())
	if err := os.WriteFile(filepath.Join(got.Dir, got.File), []byte("h4cked!"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := load(t, r, git("v1", "hello"), r.WorkDir)
	if again.Plan.Spec.Description != "hello 1" || again.Dir == got.Dir || again.Digest != got.Digest {
		t.Errorf("loaded %+v, want another copy with the same content", again)
	}
	if neighbour := load(t, r, ref("", "..", "other"), got.Dir); neighbour.Origin == nil {
		t.Error("a folder of the first copy is no longer known as part of a package")
	}
}

func TestTheLockFile(t *testing.T) {
	t.Parallel()
	s := newServer()
	plain := s.resolver(t, t.TempDir())
	got := load(t, plain, git("v1", "hello"), plain.WorkDir)
	entry := lock.Package{Kind: plan.RefGit, URL: "https://host/p", Rev: "v1", Pin: "pin1", Content: got.Origin.Package}
	locked := &lock.File{}
	locked.Add(entry, lock.Component{Reference: got.Ref, Path: got.Origin.Path, File: got.File, Digest: got.Digest})
	with := func(f *lock.File) func(*source.Resolver) {
		return func(r *source.Resolver) { r.Lock, r.Locked = f, true }
	}

	t.Run("a tag that moved since makes no difference", func(t *testing.T) {
		s.names["v1"] = "pin2"
		defer func() { s.names["v1"] = "pin1" }()
		r := s.resolver(t, t.TempDir(), with(locked))
		if got := load(t, r, git("v1", "hello"), r.WorkDir); got.Origin.Pin != "pin1" {
			t.Errorf("it is %s, want pin1", got.Origin.Pin)
		}
	})
	t.Run("what is not in it is refused, before and when it is reached", func(t *testing.T) {
		r := s.resolver(t, t.TempDir(), with(locked))
		var denied *source.DeniedError
		if err := r.Check(git("v2", "hello"), r.WorkDir); !errors.As(err, &denied) {
			t.Errorf("Check says %v, want a DeniedError", err)
		}
		if _, err := r.Load(t.Context(), git("v2", "hello"), r.WorkDir); !errors.As(err, &denied) {
			t.Errorf("Load says %v, want a DeniedError", err)
		}
		if err := r.Check(git("v1", "hello"), r.WorkDir); err != nil {
			t.Error(err)
		}
	})
	t.Run("a server that sends other content for the same pin is refused", func(t *testing.T) {
		liar := newServer()
		liar.packages["pin1"]["lib.sh"] = "rm -rf /"
		r := liar.resolver(t, t.TempDir(), with(locked))
		var denied *source.DeniedError
		if _, err := r.Load(t.Context(), git("v1", "hello"), r.WorkDir); !errors.As(err, &denied) || !strings.Contains(err.Error(), "lock file") {
			t.Errorf("the error is %v, want a DeniedError about the lock file", err)
		}
	})
	t.Run("so is content of another pin, also where the cache has it", func(t *testing.T) {
		dir := t.TempDir()
		first := s.resolver(t, dir)
		load(t, first, git("v1", "hello"), first.WorkDir)
		foreign := load(t, first, git("v2", "hello"), first.WorkDir)
		forged := &lock.File{Packages: []lock.Package{entry}}
		forged.Packages[0].Content = foreign.Origin.Package
		r := s.resolver(t, dir, with(forged))
		var denied *source.DeniedError
		if _, err := r.Load(t.Context(), git("v1", "hello"), r.WorkDir); !errors.As(err, &denied) || !strings.Contains(err.Error(), "lock file") {
			t.Errorf("the error is %v, want a DeniedError about the lock file", err)
		}
	})
	t.Run("so is a component with another digest", func(t *testing.T) {
		other := &lock.File{}
		other.Add(entry, lock.Component{Path: "steps/hello", File: "step.yml", Digest: "sha256:" + strings.Repeat("0", 64)})
		r := s.resolver(t, t.TempDir(), with(other))
		var denied *source.DeniedError
		if _, err := r.Load(t.Context(), git("v1", "hello"), r.WorkDir); !errors.As(err, &denied) {
			t.Errorf("the error is %v, want a DeniedError", err)
		}
	})
}

// rules demand the same of everything.
type rules struct {
	trust source.Trust
	err   error
}

func (r rules) Apply(*source.Location) (source.Trust, error) { return r.trust, r.err }

func TestTrust(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.packages["pin1"]["steps/hello/component.dsse"] = "signed"
	verify := func(envelope []byte, digest string) ([]string, error) {
		if string(envelope) != "signed" {
			return nil, errors.New("it is by a stranger")
		}
		return []string{"alice"}, nil
	}
	signed := s.resolver(t, t.TempDir(), func(r *source.Resolver) { r.Rules = rules{trust: source.Trust{Verify: verify}} })
	t.Run("a signed component runs, and gets nothing that is not signed", func(t *testing.T) {
		got := load(t, signed, git("v1", "hello"), signed.WorkDir)
		if diff := cmp.Diff([]string{"alice"}, got.Origin.SignedBy); diff != "" {
			t.Error(diff)
		}
		if _, err := os.Stat(filepath.Join(got.Dir, source.SignatureFile)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is given its signature, which no digest covers: %v", err)
		}
		if text, err := signed.Envelope(got); err != nil || string(text) != "signed" {
			t.Errorf("its signature is %q, %v", text, err)
		}
		if _, err := os.Stat(filepath.Join(got.Dir, "..", "..", "lib.sh")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file that is not signed is there: %v", err)
		}
		var denied *source.DeniedError
		if _, err := signed.Load(t.Context(), ref("", "..", "other"), got.Dir); !errors.As(err, &denied) {
			t.Errorf("a neighbour that is not signed: the error is %v, want a DeniedError", err)
		}
	})
	t.Run("one without, or by a stranger, does not", func(t *testing.T) {
		s.packages["pin2"]["steps/hello/component.dsse"] = "forged"
		for _, r := range []*plan.Reference{git("v1", "other"), git("v2", "hello")} {
			var denied *source.DeniedError
			if _, err := signed.Load(t.Context(), r, signed.WorkDir); !errors.As(err, &denied) || !strings.Contains(err.Error(), "signature") {
				t.Errorf("%s: the error is %v, want a DeniedError about the signature", r.Text, err)
			}
		}
	})
	t.Run("references that can change are refused where pinned ones are demanded", func(t *testing.T) {
		r := s.resolver(t, t.TempDir(), func(r *source.Resolver) { r.Rules = rules{trust: source.Trust{Pinned: true}} })
		var denied *source.DeniedError
		if err := r.Check(git("v1", "hello"), r.WorkDir); !errors.As(err, &denied) {
			t.Errorf("a tag: the error is %v, want a DeniedError", err)
		}
		if err := r.Check(git(strings.Repeat("a1", 20), "hello"), r.WorkDir); err != nil {
			t.Errorf("a commit: %v", err)
		}
	})
	t.Run("what the rules refuse is refused", func(t *testing.T) {
		r := s.resolver(t, t.TempDir(), func(r *source.Resolver) { r.Rules = rules{err: &source.DeniedError{What: "x", Why: "no"}} })
		if err := r.Check(git("v1", "hello"), r.WorkDir); err == nil {
			t.Error("it is not")
		}
	})
}

func TestRulesHoldForLocalFoldersToo(t *testing.T) {
	t.Parallel()
	s := newServer()
	dir := t.TempDir()
	hello := filepath.Join(dir, "hello")
	if err := errors.Join(os.Mkdir(hello, 0o755), os.WriteFile(filepath.Join(hello, "step.yml"), []byte("spec:\n---\nexec: {command: [\"true\"]}\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	with := func(r source.Rules) error {
		resolver := s.resolver(t, t.TempDir(), func(x *source.Resolver) { x.Rules = r; x.WorkDir = dir; x.Local.WorkDir = dir })
		_, err := resolver.Load(t.Context(), ref("", "hello"), dir)
		return err
	}
	var denied *source.DeniedError
	if err := with(rules{err: &source.DeniedError{What: "x", Why: "no"}}); !errors.As(err, &denied) {
		t.Errorf("what is denied runs: %v", err)
	}
	var got string
	demanding := rules{trust: source.Trust{Verify: func(envelope []byte, digest string) ([]string, error) {
		if got = digest; string(envelope) != "signed" {
			return nil, errors.New("it is by a stranger")
		}
		return []string{"alice"}, nil
	}}}
	if err := with(demanding); !errors.As(err, &denied) || !strings.Contains(err.Error(), "it has none") {
		t.Errorf("one without a signature: the error is %v", err)
	}
	for text, ok := range map[string]bool{"forged": false, "signed": true} {
		if err := os.WriteFile(filepath.Join(hello, source.SignatureFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := with(demanding); (err == nil) != ok {
			t.Errorf("%s: the error is %v", text, err)
		}
	}
	if want, err := tree.Digest(hello); err != nil || got != want {
		t.Errorf("the signature is held against %s, want %s (%v)", got, want, err)
	}
}

func TestManyAtOnceFetchOnce(t *testing.T) {
	t.Parallel()
	s := newServer()
	r := s.resolver(t, t.TempDir())
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			name := []string{"hello", "other", "root"}[i%3]
			if _, err := r.Load(t.Context(), git("v1", name), r.WorkDir); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(s.resolved) != 1 || len(s.fetched) != 1 {
		t.Errorf("resolved %v, fetched %v", s.resolved, s.fetched)
	}
}

func TestTheNetworkDown(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.down = true
	r := s.resolver(t, t.TempDir())
	for range 2 {
		var fetch *source.FetchError
		if _, err := r.Load(t.Context(), git("v1", "hello"), r.WorkDir); !errors.As(err, &fetch) {
			t.Fatalf("the error is %v, want a FetchError", err)
		}
	}
	s.down = false
	load(t, r, git("v1", "hello"), r.WorkDir)
}

func TestC127BuiltinComponents(t *testing.T) {
	t.Parallel()
	builtin := &source.Builtin{FS: fstest.MapFS{
		"hello/step.yml":     {Data: []byte("hello")},
		"hello/run.sh":       {Data: []byte("#!/bin/sh")},
		"hello/bin/run":      {Data: []byte("#!/bin/sh")},
		"hello/data.txt":     {Data: []byte("x")},
		"oci/build/func.yml": {Data: []byte("build")},
	}}
	r := &source.Resolver{
		Local: local(), Fetchers: map[plan.RefKind]source.Fetcher{plan.RefBuiltin: builtin},
		Cache: cache.New(filepath.Join(t.TempDir(), "must", "not", "be", "made")), Folder: t.TempDir(), WorkDir: t.TempDir(), Offline: true,
	}
	name := func(path ...string) *plan.Reference {
		return &plan.Reference{Kind: plan.RefBuiltin, Text: "builtin://" + strings.Join(path, "/"), Path: path}
	}
	got := load(t, r, name("hello"), r.WorkDir)
	t.Run("C127 the files are copied, with exec bits by name", func(t *testing.T) {
		for file, want := range map[string]bool{"run.sh": true, "bin/run": true, "data.txt": false, "step.yml": false} {
			info, err := os.Stat(filepath.Join(got.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if executable := info.Mode()&0o100 != 0; executable != want && os.PathSeparator == '/' {
				t.Errorf("%s: executable %v, want %v", file, executable, want)
			}
		}
	})
	t.Run("C127 once for a run", func(t *testing.T) {
		if again := load(t, r, name("hello"), r.WorkDir); again.Dir != got.Dir {
			t.Errorf("copied to %s and %s", got.Dir, again.Dir)
		}
	})
	t.Run("a name of several parts", func(t *testing.T) {
		if got := load(t, r, name("oci", "build"), r.WorkDir); got.Plan.Spec.Description != "build" || got.Origin.Pin != got.Digest {
			t.Errorf("loaded %+v with %+v", got, got.Origin)
		}
	})
	t.Run("C127 names that lead elsewhere, and unknown ones, are not found", func(t *testing.T) {
		for _, path := range [][]string{{".."}, {"hello", "..", "oci"}, {"."}, {""}, {"oci"}, {"nope"}} {
			var missing *source.NotFoundError
			if _, err := r.Load(t.Context(), name(path...), r.WorkDir); !errors.As(err, &missing) || !strings.Contains(err.Error(), "hello, oci/build") {
				t.Errorf("%v: the error is %v, want one that lists what there is", path, err)
			}
		}
	})
}
