//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/executortest/forged"
	"github.com/rungci/rung/steps/value"
)

// forgery is a job in a real container whose image has a step-runner that lies.
type forgery struct {
	name   string
	job    string // keywords of the job
	leaves string // shell commands that leave files below $OUT, for the store, and run as root of the container
	claims []forged.Claim
	before map[string]string // in .rung
	want   map[string]string // in .rung, without traces
	code   int
	says   string
}

var forgeries = []forgery{
	{
		name: "caches of other keys",
		job:  "cache: {key: k, paths: [x]}",
		leaves: `for key in k-non_protected k-protected k-non_protected/inner-protected .; do
			mkdir -p "$OUT/cache/$key"; echo forged >"$OUT/cache/$key/cache.zip"; echo forged >"$OUT/cache/$key/other"
		done
		dd if=/dev/zero of="$OUT/cache/k-non_protected/cache.mark" bs=1M count=1`,
		claims: []forged.Claim{
			{Name: "save_cache", Ref: "builtin://cache/save", Inputs: forged.Texts("key", "k-protected"), Outputs: map[string]value.Value{"saved": value.OfBool(true)}},
			{Name: "save_cache_2", Ref: "builtin://cache/save", Inputs: forged.Texts("key", "k-protected"), Outputs: map[string]value.Value{"saved": value.OfBool(true)}},
		},
		before: map[string]string{"cache/k-protected/cache.zip": "of main"},
		want:   map[string]string{"cache/k-protected/cache.zip": "of main", "cache/k-non_protected/cache.zip": "forged\n"},
	},
	{
		name:   "a cache that it says it has not saved",
		job:    "cache: {key: k, paths: [x]}",
		leaves: `mkdir -p "$OUT/cache/k-non_protected"; echo forged >"$OUT/cache/k-non_protected/cache.zip"`,
		claims: []forged.Claim{{Name: "save_cache", Ref: "builtin://cache/save", Outputs: map[string]value.Value{"saved": value.OfBool(false)}}},
		want:   map[string]string{},
	},
	{
		name: "what the job does not declare, and paths outside",
		job:  "artifacts: {paths: [x]}",
		leaves: `mkdir -p "$OUT/out/artifacts/sub" "$OUT/out/releases" "$OUT/out/pages"
		for file in artifacts/artifacts.zip artifacts/dotenv.gz artifacts/sub/x releases/v1.json pages/index.html; do echo forged >"$OUT/out/$file"; done`,
		claims: []forged.Claim{
			{Name: "upload_artifacts", Ref: "builtin://artifacts/upload", Outputs: forged.Texts("file", "../../../../outside")},
			{Name: "upload_dotenv", Ref: "builtin://artifacts/upload", Inputs: forged.Texts("type", "dotenv"), Outputs: forged.Texts("file", "dotenv.gz")},
			{Name: "release", Ref: "builtin://release"}, {Name: "pages", Ref: "builtin://pages"},
		},
		before: map[string]string{"releases/v1.json": "of main", "pages/index.html": "of main"},
		want:   map[string]string{"releases/v1.json": "of main", "pages/index.html": "of main", "artifacts/build/RUN/artifacts.zip": "forged\n"},
	},
	{
		name: "links, folders, pipes and devices in the place of files",
		job:  "artifacts: {paths: [x], reports: {junit: r.xml}}\n  cache: {key: k, paths: [x]}",
		leaves: `mkdir -p "$OUT/out/artifacts/junit.gz" "$OUT/cache/k-non_protected"
		ln -s /etc/passwd "$OUT/out/artifacts/artifacts.zip"; mkfifo "$OUT/cache/k-non_protected/cache.zip"; mknod "$OUT/cache/k-non_protected/cache.mark" c 1 5`,
		claims: []forged.Claim{
			{Name: "upload_artifacts", Ref: "builtin://artifacts/upload"}, {Name: "upload_junit", Ref: "builtin://artifacts/upload"},
			{Name: "save_cache", Ref: "builtin://cache/save", Outputs: map[string]value.Value{"saved": value.OfBool(true)}},
		},
		want: map[string]string{},
	},
	{
		name:   "a folder on the way that is a link",
		job:    "artifacts: {paths: [x]}",
		leaves: `mkdir -p "$OUT/out"; ln -s /etc "$OUT/out/artifacts"; ln -s passwd /etc/artifacts.zip`,
		claims: []forged.Claim{{Name: "upload_artifacts", Ref: "builtin://artifacts/upload"}},
		want:   map[string]string{},
	},
	{
		name:   "a sparse file larger than may be fetched",
		job:    "artifacts: {paths: [x]}",
		leaves: `mkdir -p "$OUT/out/artifacts"; dd if=/dev/zero of="$OUT/out/artifacts/artifacts.zip" bs=1 count=1 seek=1024G`,
		claims: []forged.Claim{{Name: "upload_artifacts", Ref: "builtin://artifacts/upload"}},
		want:   map[string]string{}, code: exit.Definition, says: "make the job's artifacts and caches smaller",
	},
}

func TestAnImageWithAForgedStepRunnerLeavesOnlyWhatTheJobWasCompiledToLeave(t *testing.T) {
	enginetest.Busybox(t)
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range forgeries {
		t.Run(f.name, func(t *testing.T) {
			image := "rung-test/forged-" + string(rune('a'+i)) + ":1"
			story, err := json.Marshal(f.claims)
			if err != nil {
				t.Fatal(err)
			}
			busybox, err := os.ReadFile("/bin/busybox")
			if err != nil {
				t.Skipf("needs busybox-static: %v", err)
			}
			files := []enginetest.File{
				{Name: "bin/busybox", Mode: 0o755, Content: busybox}, {Name: "tmp/", Mode: 0o1777}, {Name: "story.json", Mode: 0o644, Content: story},
				{Name: "etc/passwd", Mode: 0o644, Content: []byte("root:x:0:0::/:/bin/sh\n")}, {Name: "imposter", Mode: 0o755, Content: forged.Imposter(t)},
				{Name: "entrypoint", Mode: 0o755, Content: []byte("#!/bin/sh\nOUT=/builds/project.tmp/store\n" + f.leaves + "\nexec /imposter story /story.json\n")},
			}
			for _, applet := range enginetest.Applets(t) {
				files = append(files, enginetest.File{Name: "bin/" + applet, Link: "busybox"})
			}
			enginetest.Import(t, enginetest.Client(t), image, files, `ENTRYPOINT ["/entrypoint"]`)
			dir := runForgery(t, program, image, &f)
			if diff := cmp.Diff(f.want, stored(t, dir)); diff != "" {
				t.Errorf("the store (-want +got):\n%s", diff)
			}
		})
	}
}

// runForgery runs the job and returns its project.
func runForgery(t *testing.T, program, image string, f *forgery) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "project")
	files := map[string]string{".gitlab-ci.yml": "build:\n  image: {name: '" + image + "', pull_policy: never}\n  script: echo never\n  " + f.job + "\n"}
	for name, text := range f.before {
		files[".rung/"+name] = text
	}
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range []string{"init -q -b main .", "add .gitlab-ci.yml", "-c user.name=A -c user.email=a@example.com commit -q --no-gpg-sign -m first", "switch -q -c feature"} {
		c := exec.Command(enginetest.Program(t, "git"), strings.Fields(args)...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	c := exec.CommandContext(t.Context(), program, "local", "--isolation", "container", "--progress", "plain")
	c.Dir, c.Env = dir, append(os.Environ(), "DOCKER_HOST="+enginetest.Host(t), "HOME="+t.TempDir(), "XDG_STATE_HOME=", "XDG_CACHE_HOME=")
	out, _ := c.CombinedOutput()
	if code := c.ProcessState.ExitCode(); code != f.code || !strings.Contains(string(out), f.says) || strings.Contains(string(out), "echo never") {
		t.Errorf("it ends with exit code %d:\n%s", code, out)
	}
	return dir
}

// stored are the files in .rung, but for records of runs.
func stored(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	root := filepath.Join(dir, ".rung")
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		name := filepath.ToSlash(rel)
		parts := strings.Split(name, "/")
		if parts[0] == "traces" || parts[len(parts)-1] == "latest.json" || len(parts) == 1 {
			return nil
		}
		if parts[0] == "artifacts" && len(parts) > 3 {
			parts[2] = "RUN"
			name = strings.Join(parts, "/")
		}
		if !e.Type().IsRegular() {
			out[name] = e.Type().String()
			return nil
		}
		text, err := os.ReadFile(path)
		out[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
