package artifact_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rungci/rung/steps/toolkit/github/service/artifact"
)

func content(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestOfSeveralWithOneNameOneWins(t *testing.T) {
	t.Parallel()
	f := artifact.Folder{Dir: filepath.Join(t.TempDir(), "new")}
	var won atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		file := content(t, "text")
		all.Go(func() {
			_, err := f.Add(artifact.Artifact{Name: "one", Size: 4, MediaType: artifact.Zip}, file)
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, artifact.ErrExists) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d won", won.Load())
	}
}

func TestNumbersGrow(t *testing.T) {
	t.Parallel()
	f := artifact.Folder{Dir: t.TempDir()}
	last := int64(0)
	for _, name := range []string{"c", "b", "a.zip", "a", "a.json"} {
		a, err := f.Add(artifact.Artifact{Name: name, MediaType: artifact.Zip}, content(t, name))
		if err != nil || a.ID <= last {
			t.Errorf("%s has the number %d after %d, %v", name, a.ID, last, err)
		}
		last = a.ID
	}
	all, err := f.List()
	if err != nil || len(all) != 5 || all[0].Name != "c" || all[4].Name != "a.json" {
		t.Errorf("the list is %v, %v", all, err)
	}
	for _, a := range all {
		if text, err := os.ReadFile(f.Path(a)); err != nil || string(text) != a.Name {
			t.Errorf("%s holds %q, %v", a.Name, text, err)
		}
	}
}

func TestARunHasSoManyArtifactsAndNoMore(t *testing.T) {
	t.Parallel()
	f := artifact.Folder{Dir: t.TempDir()}
	for i := range artifact.MaxCount {
		name := fmt.Sprintf("a%d", i)
		if err := os.WriteFile(filepath.Join(f.Dir, name+".json"), []byte(`{"name":"`+name+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Add(artifact.Artifact{Name: "more", MediaType: artifact.Zip}, content(t, "x")); !errors.Is(err, artifact.ErrTooMany) {
		t.Errorf("the error is %v", err)
	}
}

func TestTheNameOfItsFile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, mediaType, want string }{
		{"report", artifact.Zip, "report.zip"}, {"a.zip", artifact.Zip, "a.zip"}, {"a.ZIP", artifact.Zip, "a.ZIP"}, {"p.html", "text/html", "p.html"},
	} {
		if got := (artifact.Artifact{Name: tt.name, MediaType: tt.mediaType}).File(); got != tt.want {
			t.Errorf("%s is called %s; want %s", tt.name, got, tt.want)
		}
	}
}

func TestAFolderThatSomebodyWroteInto(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no JSON": "{", "the description of another artifact": `{"name":"../../other"}`, "too much": `{"name":"a","digest":"` + strings.Repeat("0", 1<<17) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := artifact.Folder{Dir: t.TempDir()}
			if err := os.WriteFile(filepath.Join(f.Dir, "a.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := f.List(); err == nil || !strings.Contains(err.Error(), "a.json") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func FuzzNames(f *testing.F) {
	for _, name := range []string{"a", "..", "a/b", `a\b`, "a:b", ".", " . ", "é", "a\x00", "CON"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if artifact.CheckName(name) != nil {
			return
		}
		dir := t.TempDir()
		folder := artifact.Folder{Dir: dir}
		for _, mediaType := range []string{artifact.Zip, "text/plain"} {
			if path := folder.Path(artifact.Artifact{Name: name, MediaType: mediaType}); filepath.Dir(path) != dir {
				t.Errorf("%q is at %s", name, path)
			}
		}
		if _, err := folder.Find(name); !errors.Is(err, fs.ErrNotExist) && err == nil {
			t.Errorf("%q is there", name)
		}
	})
}

func TestLinksInAJobsFolderAreNotFollowed(t *testing.T) {
	const secret = "of the host"
	outside := t.TempDir()
	describe := func(name string) []byte {
		text, err := json.Marshal(artifact.Artifact{
			Name: name, Size: int64(len(secret)), Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(secret))), MediaType: artifact.Zip,
		})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, make := range map[string]func(job artifact.Folder) error{
		"the artifact": func(job artifact.Folder) error {
			return errors.Join(os.WriteFile(filepath.Join(job.Dir, "a.json"), describe("a"), 0o644),
				os.Symlink(filepath.Join(outside, "secret"), filepath.Join(job.Dir, "a.zip")))
		},
		"its description": func(job artifact.Folder) error {
			return errors.Join(os.Symlink(filepath.Join(outside, "a.json"), filepath.Join(job.Dir, "a.json")),
				os.WriteFile(filepath.Join(job.Dir, "a.zip"), []byte(secret), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			host, job := artifact.Folder{Dir: t.TempDir()}, artifact.Folder{Dir: t.TempDir()}
			err := errors.Join(os.WriteFile(filepath.Join(outside, "secret"), []byte(secret), 0o600),
				os.WriteFile(filepath.Join(outside, "a.json"), describe("a"), 0o600), make(job))
			if err != nil {
				t.Fatal(err)
			}
			if changed, err := host.Take(job, "test"); err != nil || len(changed) > 0 {
				t.Errorf("changed are %q, %v", changed, err)
			}
			if left, err := os.ReadDir(host.Dir); err != nil || len(left) > 0 {
				t.Errorf("taken are %v, %v", left, err)
			}
			if text, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(text) != secret {
				t.Errorf("the file outside holds %q, %v", text, err)
			}
		})
	}
}

func TestOfAJobsFolderOnlyNewArtifactsAreTaken(t *testing.T) {
	host, job := artifact.Folder{Dir: t.TempDir()}, artifact.Folder{Dir: t.TempDir()}
	add := func(f artifact.Folder, name, text, of string) artifact.Artifact {
		file := filepath.Join(t.TempDir(), "content")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		size, digest := int64(len(text)), fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))
		a, err := f.Add(artifact.Artifact{Name: name, Size: size, Digest: digest, MediaType: artifact.Zip, Job: of}, file)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	old := add(host, "old", "of another job", "build")
	add(job, "old", "poison", "build")
	add(job, "new", "mine", "build")
	lies := add(job, "lies", "a text", "build")
	if err := os.WriteFile(job.Path(lies), []byte("others"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(job.Dir, "damaged.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	changed, err := host.Take(job, "test")
	if err != nil || len(changed) != 1 || changed[0] != "old" {
		t.Errorf("changed are %q, %v", changed, err)
	}
	all, err := host.List()
	if err != nil || len(all) != 2 || all[0] != old || all[1].Name != "new" || all[1].Job != "test" {
		t.Fatalf("there are %+v, %v", all, err)
	}
	for a, want := range map[artifact.Artifact]string{old: "of another job", all[1]: "mine"} {
		if got, err := os.ReadFile(host.Path(a)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", a.Name, got, err)
		}
	}
}
