//go:build unix

package attacks

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// cached is a run of a component that was fetched, good, and a package of something else, evil, in the same cache.
type cached struct {
	*victim
	cache      string
	good, evil string // the hexadecimal digits of their content digests
}

func newCached(t *testing.T) *cached {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	c := &cached{victim: newVictim(t)}
	c.cache = filepath.Join(c.dir, "home", "cache", "step-runner")
	c.env = append(c.env, "XDG_CACHE_HOME="+filepath.Join(c.dir, "home", "cache"), "XDG_CONFIG_HOME="+filepath.Join(c.dir, "home", "config"),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", c.dir).Run() })
	for _, name := range []string{"good", "evil"} {
		c.write(name+"/steps/say/func.yml", "spec: {}\n---\nexec: {script: 'echo "+name+" && touch "+name+"-ran'}\n")
		git := exec.Command("sh", "-c", "git init -q -b main . && git add . && git commit -qm one && git tag v1")
		git.Dir, git.Env = filepath.Join(c.dir, "work", name), c.env
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		c.write(name+".yml", "- {name: say, step: {git: {url: 'file://"+filepath.Join(c.dir, "work", name)+"', rev: v1, dir: steps/say}}}\n")
		before := c.packages()
		c.mustRun("run", name+".yml")
		for _, digest := range c.packages() {
			if !contains(before, digest) {
				if name == "good" {
					c.good = digest
				} else {
					c.evil = digest
				}
			}
		}
	}
	if c.good == "" || c.evil == "" {
		t.Fatalf("the cache has %v", c.packages())
	}
	for _, name := range []string{"good-ran", "evil-ran"} {
		if err := os.Remove(filepath.Join(c.dir, "work", name)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func contains(all []string, text string) bool {
	for _, one := range all {
		if one == text {
			return true
		}
	}
	return false
}

// packages are the digests of what is in the cache.
func (c *cached) packages() (digests []string) {
	files, _ := filepath.Glob(filepath.Join(c.cache, "packages", "*.tar"))
	for _, file := range files {
		digests = append(digests, strings.TrimSuffix(filepath.Base(file), ".tar"))
	}
	return digests
}

func (c *cached) packed(digest string) string {
	return filepath.Join(c.cache, "packages", digest+".tar")
}
func (c *cached) unpacked(digest string) string { return filepath.Join(c.cache, "trees", digest) }

// must fails the test on an error.
func (c *cached) must(errs ...error) {
	c.t.Helper()
	if err := errors.Join(errs...); err != nil {
		c.t.Fatal(err)
	}
}

// remove removes a file or folder of the cache, whatever its mode.
func (c *cached) remove(path string) {
	c.t.Helper()
	_ = filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	c.must(os.RemoveAll(path))
}

// onlyGoodRuns runs the good steps, which may be refused, and holds that nothing else ran.
func (c *cached) onlyGoodRuns() {
	c.t.Helper()
	for _, args := range [][]string{{"run", "good.yml"}, {"run", "good.yml", "--offline"}, {"run", "good.yml"}} {
		out, code := c.run(args...)
		if c.exists("evil-ran") || strings.Contains(out, "evil\n") {
			c.t.Fatalf("%v ran the other package:\n%s", args, out)
		}
		if code == 0 && !strings.Contains(out, "good\n") {
			c.t.Errorf("%v succeeded, and did nothing:\n%s", args, out)
		}
	}
	c.mustRun("run", "good.yml") // it recovers
}

// TestB2AHostileCacheRunsNothingElse changes the cache of a run in all ways that a step of an earlier run could.
func TestB2AHostileCacheRunsNothingElse(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(*cached){
		"a forged pin": func(c *cached) { c.pins(func(p map[string]any) { p["digest"] = "sha256:" + c.evil }) },
		"a forged pin without a code": func(c *cached) {
			c.pins(func(p map[string]any) {
				p["digest"] = "sha256:" + c.evil
				delete(p, "mac")
			})
		},
		"a pin that was moved": func(c *cached) {
			files, _ := filepath.Glob(filepath.Join(c.cache, "pins", "*.json"))
			var evil []byte
			for _, file := range files {
				if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte(c.evil)) {
					evil = text
				}
			}
			for _, file := range files {
				c.must(os.WriteFile(file, evil, 0o600))
			}
		},
		"packages that were swapped": func(c *cached) {
			c.remove(c.unpacked(c.good))
			c.remove(c.unpacked(c.evil))
			c.must(os.Rename(c.packed(c.good), c.packed(c.good)+".old"), os.Rename(c.packed(c.evil), c.packed(c.good)), os.Rename(c.packed(c.good)+".old", c.packed(c.evil)))
		},
		"unpacked packages that were swapped": func(c *cached) {
			for _, digest := range []string{c.good, c.evil} {
				c.must(os.Chmod(c.unpacked(digest), 0o700))
			}
			c.must(os.Rename(c.unpacked(c.good), c.unpacked(c.good)+".old"), os.Rename(c.unpacked(c.evil), c.unpacked(c.good)),
				os.Rename(c.unpacked(c.good)+".old", c.unpacked(c.evil)))
		},
		"a link in the place of a package": func(c *cached) {
			c.remove(c.unpacked(c.good))
			c.remove(c.packed(c.good))
			c.must(os.Symlink(c.packed(c.evil), c.packed(c.good)))
		},
		"a link in the place of an unpacked package": func(c *cached) {
			c.remove(c.unpacked(c.good))
			c.must(os.Symlink(c.unpacked(c.evil), c.unpacked(c.good)))
		},
		"a link in the place of a folder of one": func(c *cached) {
			c.must(os.Chmod(c.unpacked(c.good), 0o700))
			c.remove(filepath.Join(c.unpacked(c.good), "steps"))
			c.must(os.Symlink(filepath.Join(c.unpacked(c.evil), "steps"), filepath.Join(c.unpacked(c.good), "steps")))
		},
		"a file that was changed": func(c *cached) {
			c.change(filepath.Join(c.unpacked(c.good), "steps", "say", "func.yml"))
		},
		"a file that was added": func(c *cached) {
			dir := filepath.Join(c.unpacked(c.good), "steps", "say")
			c.must(os.Chmod(dir, 0o700), os.WriteFile(filepath.Join(dir, "func.yaml"), []byte("evil"), 0o600))
		},
		"a package that was written in part": func(c *cached) {
			c.remove(c.unpacked(c.good))
			c.must(os.Truncate(c.packed(c.good), 600))
		},
		"an empty package": func(c *cached) {
			c.remove(c.unpacked(c.good))
			c.must(os.Truncate(c.packed(c.good), 0))
		},
		"an unpacked package that was written in part": func(c *cached) {
			c.must(os.Chmod(c.unpacked(c.good), 0o700))
			c.remove(filepath.Join(c.unpacked(c.good), "steps"))
		},
		"files under the names of those that are being written": func(c *cached) {
			c.must(os.WriteFile(filepath.Join(c.cache, "packages", "new-1"), []byte("half"), 0o600), os.Mkdir(filepath.Join(c.cache, "trees", "new-1"), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCached(t)
			attack(c)
			c.onlyGoodRuns()
		})
	}
}

// pins changes what the cache says that commits hold.
func (c *cached) pins(change func(map[string]any)) {
	c.t.Helper()
	files, _ := filepath.Glob(filepath.Join(c.cache, "pins", "*.json"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		var p map[string]any
		if err == nil {
			err = json.Unmarshal(text, &p)
		}
		c.must(err)
		change(p)
		text, err = json.Marshal(p)
		c.must(err, os.WriteFile(file, text, 0o600))
	}
	if len(files) < 2 {
		c.t.Fatalf("the cache has %d pins", len(files))
	}
}

// change makes a definition that was unpacked that of the other package.
func (c *cached) change(file string) {
	c.t.Helper()
	text, err := os.ReadFile(file)
	c.must(err, os.Chmod(file, 0o600), os.WriteFile(file, bytes.ReplaceAll(text, []byte("good"), []byte("evil")), 0o600))
}

// TestB2ACacheOfAnotherUserIsRefused has one whose owner decides what is in it.
func TestB2ACacheOfAnotherUserIsRefused(t *testing.T) {
	t.Parallel()
	c := newCached(t)
	cache := "/usr" // root's
	if os.Getuid() == 0 {
		cache = c.cache
		c.must(os.Chown(cache, 65534, 65534))
	}
	if out, code := c.run("run", "good.yml", "--cache", cache); code != 4 || !strings.Contains(out, "belongs to another user") || c.exists("good-ran") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// TestB2WhatAStepWritesIntoItsPackageRunsNowhereElse runs a component that rewrites its own files, which the cache may share with it.
func TestB2WhatAStepWritesIntoItsPackageRunsNowhereElse(t *testing.T) {
	t.Parallel()
	c := newCached(t)
	c.write("hostile.yml", strings.TrimSpace(c.read("good.yml"))+"\n- name: rewrite\n  script: |\n    chmod -R u+w \"$(dirname \"$TMPDIR\")\"/components\n"+
		"    for f in \"$(dirname \"$TMPDIR\")\"/components/*/steps/say/func.yml; do echo rewriting; sed 's/good/evil/g' \"$f\" >copy && cat copy >\"$f\"; done\n")
	if out := c.mustRun("run", "hostile.yml"); !strings.Contains(out, "rewriting") {
		t.Fatalf("the step found no package:\n%s", out)
	}
	c.onlyGoodRuns()
}
