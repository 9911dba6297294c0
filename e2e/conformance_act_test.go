package e2e

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestActsCases runs the workflows of nektos/act's own tests on this machine: each has to succeed or to fail as it does there. Cases that
// need a container engine, another system or an action that cannot be had are skipped; RUNG_ACTIONS_DIR names clones of actions.
func TestActsCases(t *testing.T) {
	dir := checkout(t, actDir)
	for _, program := range []string{"git", "bash", "node", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	bin := filepath.Join(build(t), "step-runner")
	different, names := readDifferences(t, "act"), map[string]bool{}
	a := &actProject{bin: bin, root: filepath.Join(t.TempDir(), "act"), home: t.TempDir(), data: filepath.Join(dir, "pkg", "runner", "testdata")}
	a.make(t)
	ran, passed := 0, 0
	for _, c := range actCases(t, filepath.Join(dir, "pkg", "runner", "runner_test.go")) {
		name := c.path + " " + c.event
		if names[name] {
			continue
		}
		names[name] = true
		t.Run(name, func(t *testing.T) {
			problem := a.run(t, c)
			ran++
			if problem == "" {
				passed++
			}
			different.judge(t, name, problem)
		})
	}
	different.seen(t, names)
	t.Logf("%d of %d cases that can run here end as with act", passed, ran)
}

// actCase is a line of act's tables: a folder of workflows, an event, and whether they fail.
type actCase struct {
	path, event string
	fails       bool
}

// actCases reads the tables of act's tests.
func actCases(t *testing.T, name string) (cases []actCase) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		line, ok := n.(*ast.CompositeLit)
		if !ok || line.Type != nil || len(line.Elts) != 6 {
			return true
		}
		var texts []string
		for _, e := range line.Elts[1:4] {
			if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value)
				texts = append(texts, text)
			}
		}
		if of, ok := line.Elts[0].(*ast.Ident); ok && of.Name == "workdir" && len(texts) == 3 {
			cases = append(cases, actCase{texts[0], texts[1], texts[2] != ""})
		}
		return true
	})
	if len(cases) == 0 {
		t.Fatalf("%s has no tables of cases", name)
	}
	return cases
}

// actProject is a repository of act's workflows, which name actions by their folders in it.
type actProject struct{ bin, root, home, data string }

func (a *actProject) make(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(a.data, func(path string, entry fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(a.data, path)
		to := filepath.Join(a.root, rel)
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return os.MkdirAll(to, 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
	if clones := os.Getenv(actionsDir); clones != "" {
		text := fmt.Sprintf("[[source]]\nmatch = \"github.com/\"\nreplace = %q\n", "file://"+clones+"/")
		if err := os.MkdirAll(filepath.Join(a.root, ".rung"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(a.root, ".rung", "sources.toml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"remote", "add", "origin", "https://github.com/nektos/act.git"}, {"add", "-A", "-f"},
		{"-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "-m", "one"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = a.root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

// elsewhere are what a workflow has that cannot run here.
var elsewhere = regexp.MustCompile(`(?m)^\s*(?:-\s*)?(?:container|services):|docker|shell: ['"]?(?:pwsh|powershell|cmd)|windows-latest`)

// run runs the workflows of a case, and says what is otherwise than with act.
func (a *actProject) run(t *testing.T, c actCase) string {
	folder := filepath.Join(a.root, filepath.FromSlash(c.path))
	var files []string
	for _, pattern := range []string{"*.yml", "*.yaml"} {
		found, _ := filepath.Glob(filepath.Join(folder, pattern))
		files = append(files, found...)
	}
	failed := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(filepath.Base(file), "action.") || !strings.Contains(string(text), c.event) {
			continue
		}
		if what := elsewhere.FindString(string(text)); what != "" {
			t.Skipf("needs a container engine or another system: %s", strings.TrimSpace(what))
		}
		args := []string{"local", file, "--format", "github-actions", "--isolation", "none", "--event", c.event, "--progress", "plain", "--offline", "--secret", "secret"}
		if event := filepath.Join(folder, "event.json"); exists(event) {
			args = append(args, "--event-file", event)
		}
		cmd := exec.Command(a.bin, args...)
		cmd.Dir = a.root
		cmd.Env = append(os.Environ(), "HOME="+a.home, "XDG_CACHE_HOME="+a.home+"/cache", "secret=keep_it_private")
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "cannot fetch ") || strings.Contains(string(out), "--offline is given") || strings.Contains(string(out), "is not in the cache") {
			t.Skip("needs an action that is not at hand")
		}
		if strings.Contains(string(out), "Cannot connect to the Docker daemon") {
			t.Skip("needs a container engine")
		}
		if err != nil {
			failed += fmt.Sprintf("%s: %v\n%s", filepath.Base(file), err, out)
		}
	}
	switch {
	case c.fails && failed == "":
		return "it succeeds, and fails with act"
	case !c.fails:
		return failed
	}
	return ""
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
