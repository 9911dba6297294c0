//go:build unix

package attacks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAHostileRepositoryReadsNoFileOfTheMachine runs in clones that want to show what is beside them.
func TestAHostileRepositoryReadsNoFileOfTheMachine(t *testing.T) {
	t.Parallel()
	const canary = "canary-of-the-host"
	for name, c := range map[string]struct {
		link string // in the project, to a file of the host
		args []string
	}{
		"the definition": {".gitlab-ci.yml", []string{"local", "--list"}},
		"variables":      {".rung/variables.yml", []string{"local", "--list"}},
		"sources":        {".rung/sources.toml", []string{"run", "steps.yml"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVictim(t)
			v.write("steps.yml", "- {name: one, script: 'true'}\n")
			if c.link != ".gitlab-ci.yml" {
				v.write(".gitlab-ci.yml", "job: {script: 'true'}\n")
			}
			host := filepath.Join(v.dir, "host")
			link := filepath.Join(v.dir, "work", c.link)
			for _, err := range []error{
				os.WriteFile(host, []byte(canary+": [\n"), 0o600), os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(host, link),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			out, code := v.run(c.args...)
			if code == 0 || strings.Contains(out, canary) || !strings.Contains(out, "outside the project") {
				t.Errorf("exit code %d:\n%s", code, out)
			}
		})
	}
}

// TestAHostileActionRunsNoFileOutsideOfTheProject has a main that climbs out of it.
func TestAHostileActionRunsNoFileOutsideOfTheProject(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	v.write("act/action.yml", "name: a\ndescription: d\nruns: {using: node20, main: ../../host.js}\n")
	v.write("steps.yml", "- {name: one, action: ./act}\n")
	if err := os.WriteFile(filepath.Join(v.dir, "host.js"), []byte("require('fs').writeFileSync('loot', '')\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := v.run("run", "steps.yml"); code == 0 || !strings.Contains(out, "outside of its package") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
