package limits_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/schematest"
	"github.com/rungci/rung/local/limits"
)

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1": 1, "512m": 512 << 20, "512MB": 512 << 20, "1.5g": 3 << 29, "2GiB": 2 << 30, "1 TiB": 1 << 40, "100k": 100 << 10, "7b": 7,
	} {
		if got, err := limits.Size(text); err != nil || got != want {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "m", "-1", "0", "1x", "NaN", "Inf", "1e30", "9999999t", "0x10g", "1mm"} {
		if got, err := limits.Size(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

func TestTheProjectsFileCanOnlyNarrowWhatTheUserAllows(t *testing.T) {
	t.Parallel()
	user := limits.Limits{Resources: executor.Resources{CPU: 2, Memory: 1 << 30, PIDs: 100}, Network: executor.NetworkNone}
	project := limits.Limits{Resources: executor.Resources{CPU: 8, Memory: 1 << 29, Disk: 1 << 30}}
	want := limits.Limits{Resources: executor.Resources{CPU: 2, Memory: 1 << 29, PIDs: 100, Disk: 1 << 30}, Network: executor.NetworkNone}
	for name, got := range map[string]limits.Limits{"the user's first": user.Within(project), "the project's first": project.Within(user)} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAProjectReachesWhatItAndTheUserAllow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ user, project, want executor.NetworkPolicy }{
		{"", "", ""}, {"", "public", "public"}, {"public", "", "public"}, {"public", "none", "none"}, {"none", "public", "none"},
		{"public", "example.com:443", "example.com:443"}, {"example.com", "public,10.0.0.0/8", "example.com"}, {"example.com", "example.org", "none"},
	} {
		got := limits.Limits{Network: c.user}.Within(limits.Limits{Network: c.project})
		if got.Network != c.want {
			t.Errorf("%q and %q: %q, want %q", c.user, c.project, got.Network, c.want)
		}
	}
}

func TestTheSchemaOfLimitsAndTheParserAgree(t *testing.T) {
	t.Parallel()
	schema := schematest.Compile(t, limits.Schema())
	right := []string{"", "cpus: 2\nmemory: 4GiB\npids: 500\ndisk: 20GiB\nnetwork: none\n", "cpus: 0.5", "memory: 1073741824", "network: all", "network: public", "network: example.com:443,10.0.0.0/8"}
	wrong := []string{"[a]", "a", "memory: [1]", "memory: 2 apples", "cpus: -1", "cpus: many", "pids: 1", "network: host", "network: [public]", "disk:", "cores: 2", "privileged: true"}
	for known, texts := range map[bool][]string{true: right, false: wrong} {
		for _, text := range texts {
			if _, err := limits.Parse("limits.yml", []byte(text)); known != (err == nil) {
				t.Errorf("%q: the parser: %v", text, err)
			}
			if err := schema.YAML(text); known != (err == nil) {
				t.Errorf("%q: the schema: %v", text, err)
			}
		}
	}
}

func TestAFileInPlaceOfTheFolder(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, ".rung"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := limits.Read(root, ".rung/limits.yml"); err == nil || !strings.Contains(err.Error(), ".rung is not a folder; move it away") {
		t.Errorf("the error is %v", err)
	}
}

func TestTheFileIsReadInItsProjectOnly(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if got, err := limits.Read(root, ".rung/limits.yml"); err != nil || got != (limits.Limits{}) {
		t.Errorf("without a file: %+v, %v", got, err)
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(root, ".rung", "limits.yml")
	write(file, "pids: 99")
	if got, err := limits.Read(root, ".rung/limits.yml"); err != nil || got.Resources.PIDs != 99 {
		t.Errorf("%+v, %v", got, err)
	}
	write(file, strings.Repeat("#", 65<<10))
	if _, err := limits.Read(root, ".rung/limits.yml"); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Error(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "limits.yml")
	write(elsewhere, "pids: 99")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, file); err != nil {
		t.Skipf("needs symbolic links: %v", err)
	}
	if _, err := limits.Read(root, ".rung/limits.yml"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}
