package github

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
)

// TestSubjects holds the cases of actions/runner for GITHUB_ARTIFACTS.
func TestSubjects(t *testing.T) {
	a64, b64, quirky := strings.Repeat("a", 64), strings.Repeat("b", 64), "image@sha256:"+strings.Repeat("f", 64)
	image := func(name, digest string) event.Subject { return event.Subject{Name: name, Digest: digest} }
	const (
		binary = "sha256:9f64a747e1b97f131fabb6b447296c9b6f0201e79fb3c5356e6c77e89b6a806a"
		empty  = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	)
	for _, c := range []struct {
		name, text string
		want       []event.Subject
		err        string
	}{
		{"nothing", "", nil, ""},
		{"comments and blank lines", "# x\n\n   \n  # y\n", nil, ""},
		{"an image", "ghcr.io/x:1.0@sha256:" + a64, []event.Subject{image("ghcr.io/x:1.0", "sha256:"+a64)}, ""},
		{"an image with a scheme", "OCI://ghcr.io/x:1.0@sha256:" + strings.ToUpper(a64), []event.Subject{image("ghcr.io/x:1.0", "sha256:"+a64)}, ""},
		{"other digests", "x@sha384:" + strings.Repeat("c", 96) + "\ny@sha512:" + strings.Repeat("d", 128), []event.Subject{image("x", "sha384:"+strings.Repeat("c", 96)), image("y", "sha512:"+strings.Repeat("d", 128))}, ""},
		{"a file, relative to the workspace", "dist/app", []event.Subject{image("app", binary)}, ""},
		{"a file in a container", "/github/workspace/dist/app", []event.Subject{image("app", binary)}, ""},
		{"an absolute file", "file://WORK/dist/app", []event.Subject{image("app", binary)}, ""},
		{"a file that looks like an image", "FILE://" + quirky, []event.Subject{image(quirky, empty)}, ""},
		{"an entry that looks like an image of another length is a file", "x@sha256:abc", nil, `line 1: file "x@sha256:abc" does not exist`},
		{"many", "# Binary\ndist/app\n\n# Image\nghcr.io/x:1@sha256:" + a64 + "\n", []event.Subject{image("app", binary), image("ghcr.io/x:1", "sha256:"+a64)}, ""},
		{"the same again", "x@sha256:" + a64 + "\nx@sha256:" + a64, []event.Subject{image("x", "sha256:"+a64)}, ""},
		{"a conflict", "x@sha256:" + a64 + "\nx@sha256:" + b64, []event.Subject{image("x", "sha256:"+a64)}, `line 2: "x" was declared with the digest sha256:` + a64 + " before, and has sha256:" + b64 + " now"},
		{"a scheme without digest", "oci://ghcr.io/x:1.0", nil, `line 1: "ghcr.io/x:1.0" has no digest`},
		{"a digest of another length", "oci://x@sha256:abc", nil, "must have 64 hexadecimal digits, not 3"},
		{"a file that is not there", "no/such", nil, `line 1: file "no/such" does not exist`},
		{"a folder", "dist", nil, "dist is a folder, not a regular file"},
		{"no path", "file:// ", nil, "the path is empty"},
		{"an equals sign", "name=ghcr.io/x@sha256:" + a64, nil, "line 1: entries with '=' are reserved"},
		{"another scheme", "https://example.com/artifact", nil, "line 1: unsupported URI scheme"},
		{"a mistake leaves all of the file out", "# comment\nx@sha256:" + a64 + "\n\nname=bogus\n", nil, "line 4: "},
		{"a file that is too large", strings.Repeat("#", MaxSubjectFile+1), nil, "GITHUB_ARTIFACTS: the file is too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := begin(t, nil)
			if err := os.Mkdir(filepath.Join(b.process.WorkDir, "dist"), 0o700); err != nil {
				t.Fatal(err)
			}
			b.matcherFile(t, "dist/app", "\x01\x02\x03\x04")
			if strings.Contains(c.text, quirky) {
				if filepath.Separator == '\\' {
					t.Skip("needs a file system whose names may hold colons: this one has Windows' names")
				}
				b.matcherFile(t, quirky, "")
			}
			b.writes(t, "GITHUB_ARTIFACTS", strings.ReplaceAll(c.text, "WORK", b.process.WorkDir))
			_, err := b.End()
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			var got []event.Subject
			for _, body := range b.events {
				if s, ok := body.(event.Subjects); ok {
					got = append(got, s.Subjects...)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSubjectsOfTheJob(t *testing.T) {
	w, work := world{}, t.TempDir()
	step := func(text string) (listed string, err error) {
		b := beginIn(t, w, nil, func(p *engine.ToolkitProcess) { p.WorkDir = work })
		list, rerr := os.ReadFile(b.Env()["GITHUB_ARTIFACTS_LIST"])
		if rerr != nil {
			t.Fatal(rerr)
		}
		b.writes(t, "GITHUB_ARTIFACTS_LIST", "what a step writes here does not count")
		b.writes(t, "GITHUB_ARTIFACTS", text)
		_, err = b.End()
		return string(list), err
	}
	if list, err := step("z@sha256:" + strings.Repeat("a", 64)); err != nil || list != `{"version":1,"subjects":[]}` {
		t.Errorf("%s, %v", list, err)
	}
	if err := os.WriteFile(filepath.Join(work, "b"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := `{"version":1,"subjects":[{"name":"z","digest":"sha256:` + strings.Repeat("a", 64) + `","kind":"oci"}]}`
	if list, err := step("b"); err != nil || list != want {
		t.Errorf("%s, %v", list, err)
	}
	var many strings.Builder
	for i := range MaxSubjects - 2 {
		fmt.Fprintf(&many, "x%d@sha256:%064d\n", i, i)
	}
	if _, err := step(many.String()); err != nil {
		t.Error(err)
	}
	if _, err := step("b\n"); err != nil {
		t.Errorf("the same again at the limit: %v", err)
	}
	if _, err := step("new@sha256:" + strings.Repeat("a", 64)); err == nil || !strings.Contains(err.Error(), "more than 500 subjects") {
		t.Error(err)
	}
	if list, _ := step(""); strings.Index(list, `"b"`) > strings.Index(list, `"x0"`) || strings.Count(list, "digest") != MaxSubjects {
		t.Errorf("%d subjects", strings.Count(list, "digest"))
	}
}

func TestADigestTakesNoLongerThanItsProcess(t *testing.T) {
	t.Parallel()
	stopped := errors.New("the step is out of time")
	ctx, stop := context.WithCancelCause(t.Context())
	b := beginIn(t, world{}, nil, func(p *engine.ToolkitProcess) { p.Live = ctx })
	big, err := os.Create(filepath.Join(b.process.WorkDir, "big"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(big.Truncate(1<<40), big.Close()); err != nil {
		t.Skip("needs a file system that has room for holes: " + err.Error())
	}
	if err := os.WriteFile(b.env["GITHUB_ARTIFACTS"], []byte("big\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, func() { stop(stopped) })
	if _, err := b.End(); !errors.Is(err, stopped) {
		t.Errorf("it ends with %v", err)
	}
}
