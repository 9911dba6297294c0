package pages

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/catalog/programtest"
)

func inputsOf(in map[string]any) map[string]any {
	all := map[string]any{"publish": "public", "location": "", "path_prefix": "", "expire_in": ""}
	for name, v := range in {
		all[name] = v
	}
	return all
}

func run(t *testing.T, dir string, in map[string]any) *programtest.Result {
	t.Helper()
	return programtest.Run(t, Run, dir, inputsOf(in))
}

// tree returns the files below a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		text, err := os.ReadFile(path)
		out[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPublish(t *testing.T) {
	t.Parallel()
	dir, location := t.TempDir(), filepath.Join(t.TempDir(), "deep", "pages")
	programtest.Write(t, dir, map[string]string{"public/index.html": "one", "public/css/a.css": "a", "public/empty/": ""})
	want := map[string]string{"index.html": "one", "css/a.css": "a"}
	if runtime.GOOS == "linux" {
		programtest.Write(t, dir, map[string]string{"public/odd\n\xff": "odd"})
		want["odd\n\xff"] = "odd"
	}
	r := run(t, dir, map[string]any{"location": location, "expire_in": "1 day"})
	if r.Err != nil || r.Output("path") != location || !strings.Contains(r.Log, "1 day") {
		t.Fatalf("got %v, %v\n%s", r.Outputs, r.Err, r.Log)
	}
	if diff := cmp.Diff(want, tree(t, location)); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	if left, _ := os.ReadDir(filepath.Dir(location)); len(left) != 1 {
		t.Errorf("beside the pages there is %v", left)
	}

	// What was there is replaced whole.
	programtest.Write(t, dir, map[string]string{"dist/index.html": "two"})
	if r = run(t, dir, map[string]any{"publish": "dist", "location": location}); r.Err != nil || r.Output("files") != "1" {
		t.Fatalf("got %v, %v", r.Outputs, r.Err)
	}
	if diff := cmp.Diff(map[string]string{"index.html": "two"}, tree(t, location)); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestParallelDeployments(t *testing.T) {
	t.Parallel()
	dir, location := t.TempDir(), filepath.Join(t.TempDir(), "pages")
	programtest.Write(t, dir, map[string]string{"main/index.html": "main", "main/mr-2/index.html": "not a deployment", "mr/index.html": "mr", "new/index.html": "new"})
	for _, step := range []struct {
		publish, prefix string
		want            map[string]string
	}{
		{"mr", "MR/1", map[string]string{"mr-1/index.html": "mr", ".deployments": "mr-1\n"}},
		{"main", "", map[string]string{"index.html": "main", "mr-2/index.html": "not a deployment", "mr-1/index.html": "mr", ".deployments": "mr-1\n"}},
		{"mr", "mr-2", map[string]string{"index.html": "main", "mr-1/index.html": "mr", "mr-2/index.html": "mr", ".deployments": "mr-1\nmr-2\n"}},
		{"main", "", map[string]string{"index.html": "main", "mr-1/index.html": "mr", "mr-2/index.html": "mr", ".deployments": "mr-1\nmr-2\n"}},
		{"new", "mr-1", map[string]string{"index.html": "main", "mr-1/index.html": "new", "mr-2/index.html": "mr", ".deployments": "mr-1\nmr-2\n"}},
	} {
		if r := run(t, dir, map[string]any{"publish": step.publish, "location": location, "path_prefix": step.prefix}); r.Err != nil {
			t.Fatal(r.Err)
		}
		if diff := cmp.Diff(step.want, tree(t, location)); diff != "" {
			t.Fatalf("%s as %q: want (-), got (+):\n%s", step.publish, step.prefix, diff)
		}
	}
}

func TestSlug(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "v1.2": "v1.2", "Feature/ABC_d": "feature-abc-d", "../../etc": "etc", "..": "", "/": "", "-.a.-": "a", "ü": "", "aü b": "a--b",
		strings.Repeat("a", 62) + "-bcd": strings.Repeat("a", 62), strings.Repeat("x", 100): strings.Repeat("x", 63),
	} {
		if got := Slug(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]map[string]any{
		"a folder that is not there":             {"publish": "none"},
		"a file":                                 {"publish": "file"},
		"a folder outside":                       {"publish": "../outside"},
		"a prefix of nothing":                    {"path_prefix": "../.."},
		"no location":                            {"location": ""},
		"a location in the folder":               {"location": "public/pages"},
		"a location that is the folder":          {"location": "public"},
		"a location that the folder is in":       {"location": "."},
		"the work directory with location in it": {"publish": ".", "location": "pages"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "work")
			programtest.Write(t, dir, map[string]string{"public/index.html": "x", "file": "x", "../outside/index.html": "s3cret"})
			all := map[string]any{"location": "../pages"}
			for name, v := range in {
				all[name] = v
			}
			before := tree(t, filepath.Dir(dir))
			if r := run(t, dir, all); r.Err == nil {
				t.Errorf("it is published: %v", r.Outputs)
			}
			if diff := cmp.Diff(before, tree(t, filepath.Dir(dir))); diff != "" {
				t.Errorf("before (-), after (+):\n%s", diff)
			}
		})
	}
}

func TestSymbolicLinks(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs rights that users of Windows do not have")
	}
	for name, tc := range map[string]struct {
		link, target string
		ok           bool
	}{
		"to a file beside":            {"public/link", "index.html", true},
		"to a folder above, within":   {"public/sub/link", "..", true},
		"out of the pages":            {"public/link", "../secret", false},
		"out of the work directory":   {"public/link", "../../outside", false},
		"absolute":                    {"public/link", "/etc", false},
		"to nothing":                  {"public/link", "none", false},
		"of the folder itself, away":  {"public2", "../outside", false},
		"out of the pages, by a link": {"public/sub/link", "../../secret", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "work")
			programtest.Write(t, dir, map[string]string{"public/index.html": "x", "public/sub/": "", "secret": "s3cret", "../outside/index.html": "s3cret"})
			if err := os.Symlink(tc.target, filepath.Join(dir, tc.link)); err != nil {
				t.Fatal(err)
			}
			publish, _, _ := strings.Cut(tc.link, "/")
			location := filepath.Join(t.TempDir(), "pages")
			r := run(t, dir, map[string]any{"publish": publish, "location": location})
			if (r.Err == nil) != tc.ok {
				t.Fatalf("got %v", r.Err)
			}
			left, _ := os.ReadDir(filepath.Dir(location))
			if !tc.ok && len(left) > 0 {
				t.Errorf("there is %v", left)
			}
		})
	}
}

func TestACancelledStepLeavesWhatWasThere(t *testing.T) {
	t.Parallel()
	dir, location := t.TempDir(), filepath.Join(t.TempDir(), "pages")
	programtest.Write(t, dir, map[string]string{"public/index.html": "one"})
	if r := run(t, dir, map[string]any{"location": location}); r.Err != nil {
		t.Fatal(r.Err)
	}
	programtest.Write(t, dir, map[string]string{"public/index.html": "two"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := programtest.RunContext(t, ctx, Run, dir, inputsOf(map[string]any{"location": location})); r.Err == nil {
		t.Error("a cancelled step succeeds")
	}
	if diff := cmp.Diff(map[string]string{"pages/index.html": "one"}, tree(t, filepath.Dir(location))); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}
