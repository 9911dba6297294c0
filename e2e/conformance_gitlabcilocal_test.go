package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
)

// TestGitLabCILocalsCases runs the definitions of gitlab-ci-local's own tests on this machine. Each has to run, to fail or to be refused as
// its test expects, with the output and the outcome of each job that it expects, as far as GitLab itself would do the same. Cases that
// need a container engine, other repositories or what only that program has are skipped.
func TestGitLabCILocalsCases(t *testing.T) {
	folder := filepath.Join(checkout(t, gitLabCILocalDir), "tests", "test-cases")
	for _, program := range []string{"git", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	bin := filepath.Join(build(t), "step-runner")
	different, names := readDifferences(t, "gitlab-ci-local"), map[string]bool{}
	files, err := filepath.Glob(filepath.Join(folder, "*", "*.test.ts"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no cases: %v", folder, err)
	}
	ran, passed := 0, 0
	for _, file := range files {
		for _, c := range localCases(t, file) {
			if names[c.name] {
				continue
			}
			names[c.name] = true
			t.Run(c.name, func(t *testing.T) {
				problem := c.run(t, bin, filepath.Dir(file))
				ran++
				if problem == "" {
					passed++
				}
				different.judge(t, c.name, problem)
			})
		}
	}
	different.seen(t, names)
	t.Logf("%d of %d cases that can run here end as with gitlab-ci-local", passed, ran)
}

// localCase is a test of gitlab-ci-local: what it runs, and what it expects.
type localCase struct {
	name    string
	body    string
	args    []string // of step-runner local
	folder  string   // of the definition, from the case's own
	refused bool
	lacks   string // why it cannot run here
}

var (
	localTest   = regexp.MustCompile(`(?m)^(?:    )?test(?:\.\w+)*\((["'` + "`" + `])(.*?)["'` + "`" + `], `)
	localOption = regexp.MustCompile(`(?m)^\s*(\w+): (.+?),?$`)
	localText   = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
	localThrows = regexp.MustCompile(`\.rejects|toThrow\(|e\.message|Error is expected`)
)

// localCases reads the tests of a file.
func localCases(t *testing.T, file string) (cases []localCase) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	starts := localTest.FindAllStringSubmatchIndex(text, -1)
	for i, s := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		c := localCase{name: filepath.Base(filepath.Dir(file)) + "/" + strings.ReplaceAll(text[s[4]:s[5]], ": ", ":"), body: text[s[0]:end]}
		c.refused = localThrows.MatchString(c.body)
		c.read(text)
		cases = append(cases, c)
	}
	return cases
}

// flags are the options of gitlab-ci-local that have a counterpart here; those without a name change nothing here.
var flags = map[string]string{
	"variable": "--variable", "input": "--input", "manual": "--manual", "list": "--list", "listAll": "--list", "listCsv": "--list", "preview": "--list",
	"needs": "--needs", "job": "", "file": "", "cwd": "", "stateDir": "", "noColor": "", "shellIsolation": "", "jsonSchemaValidation": "", "forceShellExecutor": "",
	"shellExecutorNoImage": "", "artifactsToSource": "", "concurrency": "", "maxJobNamePadding": "", "defaultImage": "", "umask": "", "pullPolicy": "", "timestamps": "",
}

// read finds the options with which a test runs the program.
func (c *localCase) read(file string) {
	_, call, ok := strings.Cut(c.body, "handler({")
	call, _, closed := strings.Cut(call, "\n    }")
	if !ok || !closed || strings.Count(c.body, "handler({") != 1 {
		c.lacks = "it is not one run of the program"
		return
	}
	if strings.Contains(file, "spyGit") || strings.Contains(file, "gitRemoteMock") || strings.Contains(file, "mockFetch") || strings.Contains(file, "http-mock") {
		c.lacks = "it needs answers that the other program's tests make up"
	}
	if strings.Contains(call, "`") {
		c.lacks = "its options are computed"
	}
	var jobs []string
	for _, option := range localOption.FindAllStringSubmatch(call, -1) {
		name, value := option[1], option[2]
		flag, known := flags[name]
		var texts []string
		for _, m := range localText.FindAllStringSubmatch(value, -1) {
			texts = append(texts, strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(m[1]))
		}
		switch {
		case name == "cwd":
			_, below, literal := strings.Cut(strings.Trim(value, `"`), "tests/test-cases/")
			_, c.folder, _ = strings.Cut(strings.Trim(below, "/"), "/")
			if !literal && strings.Count(file, "const cwd = ") != 1 || strings.Contains(value, "+") {
				c.lacks = "its folder is computed"
			}
		case !known:
			c.lacks = "it is about a flag of the other program: " + name
		case name == "job":
			jobs = texts
		case name == "file" && len(texts) == 1:
			c.args = append([]string{texts[0], "--format", "gitlab-ci"}, c.args...)
		case flag == "--needs" || flag == "--list":
			if value == "true" {
				c.args = append(c.args, flag)
			}
		case flag != "":
			for _, text := range texts {
				c.args = append(c.args, flag, text)
			}
		}
	}
	for _, job := range jobs {
		c.args = append(c.args, "--job-name", job)
	}
	if len(jobs) == 0 {
		c.args = without(c.args, "--needs")
	}
}

func without(args []string, flag string) (out []string) {
	for _, a := range args {
		if a != flag {
			out = append(out, a)
		}
	}
	return out
}

// caseTime is how long the definition of a case may run.
const caseTime = 60 * time.Second

var needsEngine = regexp.MustCompile(`(?m)^\s*(?:image|services):|docker`)

// run runs the definition of the case in a repository of its own, and says what is otherwise than its test expects.
func (c *localCase) run(t *testing.T, bin, folder string) string {
	if c.lacks != "" {
		t.Skip(c.lacks)
	}
	work, home := filepath.Join(t.TempDir(), "work"), t.TempDir()
	from := filepath.Join(folder, filepath.FromSlash(c.folder))
	if !exists(from) {
		t.Skip("its folder is made by the other program's tests")
	}
	if err := os.CopyFS(work, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "master"}, {"remote", "add", "origin", "git@gitlab.com:gcl/test-project.git"}, {"add", "-A", "-f"},
		{"-c", "user.name=Testersen", "-c", "user.email=test@test.com", "commit", "-q", "-m", "one"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = work
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), caseTime)
	defer cancel()
	args := append([]string{"local"}, c.args...)
	args = append(args, "--isolation", "none", "--no-services", "--progress", "plain", "--offline")
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir, cmd.WaitDelay = work, 5*time.Second
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+home+"/cache", "XDG_CONFIG_HOME="+home+"/config")
	out, err := cmd.CombinedOutput()
	problem := c.judge(work, string(out), err)
	if problem != "" && !c.refused {
		skipWhatCannotRun(t, work, string(out))
	}
	if problem != "" {
		problem = fmt.Sprintf("step-runner %s: %s\n%s", strings.Join(args, " "), problem, out)
	}
	return problem
}

// skipWhatCannotRun skips a case of which a part needs more than this machine.
func skipWhatCannotRun(t *testing.T, work, out string) {
	t.Helper()
	if strings.Contains(out, "cannot fetch ") || strings.Contains(out, "--offline") {
		t.Skip("needs a repository or a file from elsewhere")
	}
	if needsEngine.MatchString(definitions(work)) {
		t.Skip("needs a container engine")
	}
}

// definitions is the text of a case's own files.
func definitions(work string) (all string) {
	files, _ := filepath.Glob(filepath.Join(work, ".gitlab-ci*.yml"))
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			all += string(text)
		}
	}
	return all
}

// scriptsFail tells that a case has a job that ends with an error, which the other program's tests need not mention.
var scriptsFail = regexp.MustCompile(`\bexit [1-9]|\bfalse\b`)

// judge holds what a run wrote, and how it ended, against what the test expects.
func (c *localCase) judge(work, out string, err error) string {
	code := 0
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		code = ended.ExitCode()
	} else if err != nil {
		return err.Error()
	}
	want := c.expected()
	switch {
	case c.refused && code == exit.OK:
		return "it runs, and is refused by gitlab-ci-local"
	case c.refused:
		return ""
	case want.fails && code != exit.StepsFailed:
		return fmt.Sprintf("a job fails with gitlab-ci-local, and the exit code is %d", code)
	case !want.fails && code == exit.StepsFailed && len(want.rows) == 0 && scriptsFail.MatchString(definitions(work)):
	case !want.fails && code != exit.OK:
		return fmt.Sprintf("it runs with gitlab-ci-local, and the exit code is %d", code)
	}
	plain := colors.ReplaceAllString(out, "")
	for _, text := range want.texts {
		if !strings.Contains(plain, text) {
			return fmt.Sprintf("%q is missing in the output", text)
		}
	}
	for _, line := range want.rows {
		if !line.MatchString(plain) {
			return fmt.Sprintf("no job ends as %q", line)
		}
	}
	return ""
}

var colors = regexp.MustCompile("\x1b\\[[0-9;]*m")

// expectation is what a test expects of the output.
type expectation struct {
	texts []string
	rows  []*regexp.Regexp // of the summary
	fails bool
}

var (
	localOutput = regexp.MustCompile("chalk`\\{blueBright ([^}]*?) *\\} \\{(?:greenBright|redBright) >\\} ?(.*?)`")
	localPlain  = regexp.MustCompile(`"([\w:-]+) > ([^"\\]*)"`)
	localBadge  = regexp.MustCompile("chalk`\\{black\\.bg\\w+  (PASS|FAIL|WARN) \\} \\{blueBright ([^}]*?) *\\}")
	localNot    = regexp.MustCompile(`(?s)(?:const (?:not|un)\w*\s*=\s*\[.*?\n    \]|\.not\.to\w+\(.*?\);)`)
	badges      = map[string]string{"PASS": "(?:✓ +%s +|OK |✓ script)", "FAIL": "(?:✗ +%s +|FAILED )", "WARN": "(?:✗ +%s +\\S+ +allowed to fail|allowed)"}
)

// expected reads the lines that a test expects: the output of jobs, and how they end.
func (c *localCase) expected() expectation {
	var e expectation
	body := localNot.ReplaceAllString(c.body, "")
	for _, m := range append(localOutput.FindAllStringSubmatch(body, -1), localPlain.FindAllStringSubmatch(body, -1)...) {
		text := strings.TrimSpace(strings.NewReplacer("\\`", "`", `\\`, `\`, `\{`, "{", `\}`, "}", `\"`, `"`).Replace(m[2]))
		if !strings.Contains(text, "${") {
			e.texts = append(e.texts, text)
		}
	}
	for _, m := range localBadge.FindAllStringSubmatch(body, -1) {
		e.fails = e.fails || m[1] == "FAIL"
		name := strings.ReplaceAll(regexp.QuoteMeta(m[2]), ",", ", ?") // GitLab has a blank after the comma
		e.rows = append(e.rows, regexp.MustCompile(fmt.Sprintf(strings.ReplaceAll(badges[m[1]], "%s", "%[1]s"), name)))
	}
	return e
}
