package lock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/plan"
)

var (
	commit  = strings.Repeat("0a", 20)
	digest  = "sha256:" + strings.Repeat("1b", 32)
	example = &File{Version: Version, Packages: []Package{
		{Kind: plan.RefArchive, URL: "./s.zip", Pin: digest, Content: digest, Components: []Component{{Reference: "./s.zip", File: "step.yml", Digest: digest}}},
		{Kind: plan.RefGit, URL: "https://host/p", Rev: "v1", Pin: commit, Content: digest, Components: []Component{
			{Reference: "host/p/-/a@v1", Path: "steps/a", File: "step.yml", Digest: digest},
		}},
	}}
)

func encode(t *testing.T) string {
	t.Helper()
	text, err := example.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	got, err := Parse(Name, []byte(encode(t)))
	if diff := cmp.Diff(example, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestALockFileThatWasWrittenByHand(t *testing.T) {
	t.Parallel()
	good := encode(t)
	for _, tc := range []struct{ name, old, new, want string }{
		{"a pin that is a branch", commit, "main", "not the full name of a commit"},
		{"a pin that is a part of a commit", commit, commit[:39], "not the full name of a commit"},
		{"a pin that is a path", commit, "../../" + commit[6:], "not the full name of a commit"},
		{"a digest that is too short", digest, digest[:40], "not a digest"},
		{"a digest of another kind", digest, "md5:" + digest[7:], "not a digest"},
		{"no pin", "pin = '" + commit + "'\n", "", "has no kind, url, pin or content"},
		{"a kind that is not locked", "'git'", "'local'", "has no kind, url, pin or content"},
		{"a package that is defined twice", "version = 1\n", "version = 1\n" + good[strings.Index(good, "[[package]]"):], "is there twice"},
		{"a key of another version", "rev = ", "revision = ", `"package.revision" is not known`},
		{"another version", "version = 1", "version = 2", "reads version 1"},
		{"no TOML", "version", "[[version", ":3:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := Parse(Name, []byte(strings.ReplaceAll(good, tc.old, tc.new))); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want one that says %q", err, tc.want)
			}
		})
	}
}

func TestReadIfThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(dir, "none")
		if f, err := ReadIfThere(path); f != nil || err != nil {
			t.Errorf("got %v, %v", f, err)
		}
		if _, err := Read(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("what is not a file", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{dir, os.DevNull} {
			if _, err := ReadIfThere(path); err == nil || !strings.Contains(err.Error(), "is a folder") && !strings.Contains(err.Error(), "is not a regular file") {
				t.Errorf("%s: got %v", path, err)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	text, err := example.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse(Name, text)
		if err != nil {
			return
		}
		again, err := file.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(Name, again); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}

func TestImagesAreLockedByTheNamesThatMeanTheSame(t *testing.T) {
	t.Parallel()
	digest, other := "sha256:"+strings.Repeat("01", 32), "sha256:"+strings.Repeat("02", 32)
	f := &File{Version: Version}
	f.AddImage("tools/b:1", digest)
	f.AddImage("alpine", other)
	f.AddImage("docker.io/library/alpine:latest", digest) // is there
	text, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse("steps.lock", text)
	if err != nil || len(got.Images) != 2 || got.Images[0].Name != "alpine" {
		t.Fatalf("%v, %+v of\n%s", err, got, text)
	}
	for name, want := range map[string]string{"alpine:latest": other, "docker.io/tools/b:1": digest, "tools/b": "", "alpine:3": "", "x@" + digest: digest} {
		if found := got.Image(name); found != want {
			t.Errorf("%s is locked to %q, want %q", name, found, want)
		}
	}
	var none *File
	if none.Image("alpine") != "" || none.Image("alpine@"+digest) != digest {
		t.Error("no lock file locks something, or does not know a digest")
	}
	for text, want := range map[string]string{
		"[[image]]\nname = 'a'\ndigest = 'sha256:1'": "has a digest that is not", "[[image]]\nname = 'a@b'\ndigest = '" + digest + "'": "has no name",
		"[[image]]\nname = 'a'\ndigest = '" + digest + "'\n[[image]]\nname = 'a:latest'\ndigest = '" + digest + "'": "is there twice",
	} {
		if _, err := Parse("steps.lock", []byte("version = 1\n"+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	joined, err := Join(got, "one", &File{Images: []Image{{"c", digest}}}, "two")
	if err != nil || joined.Image("c") != digest || joined.Image("alpine") != other {
		t.Errorf("joined they are %+v, %v", joined, err)
	}
	if _, err := Join(got, "one", &File{Images: []Image{{"alpine", digest}}}, "two"); err == nil || !strings.Contains(err.Error(), "the image alpine is "+other+" in one") {
		t.Errorf("two files contradict each other: %v", err)
	}
}
