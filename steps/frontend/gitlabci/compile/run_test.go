package compile_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/source/sourcetest"
)

func needShell(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs sh: ", err)
	}
}

// whole is a job with one of everything that depends on how the job goes.
func whole() *compile.Job {
	cache := func(key, when string) compile.Cache {
		return compile.Cache{Key: key, Paths: []string{"x"}, When: when, Location: "/cache"}
	}
	return &compile.Job{
		Name: "whole", Source: compile.Source{WorkTree: "/p"}, Variables: vars(), Shell: "sh",
		PreGetSources: []string{"true"}, Script: []string{"echo script"}, AfterScript: []string{`echo "it is $CI_JOB_STATUS"`},
		Cache:        []compile.Cache{cache("a", ""), cache("b", "on_failure"), cache("c", "always")},
		Dependencies: []compile.Dependency{{Name: "x", File: "/x.zip"}},
		Artifacts: []compile.Artifact{
			{Paths: []string{"a"}, Location: "/a"}, {Paths: []string{"b"}, When: "on_failure", Location: "/a"},
			{Type: "junit", Paths: []string{"c"}, When: "always", Location: "/a"}, {Type: "dotenv", Paths: []string{"d"}, When: "always", Location: "/a"},
		},
	}
}

// outline is what became of the steps of the whole job: those of the beginning, in one word where they are alike, and the rest.
func outline(r *ran) string { return strings.Join(r.steps, "\n") }

func TestAWholeJob(t *testing.T) {
	needShell(t)
	const begun = `pre_get_sources success
get_sources success
restore_cache success
restore_cache_2 success
restore_cache_3 success
download_artifacts success
`
	onSuccess := `dotenv success
save_cache success
save_cache_2 skipped
save_cache_3 success
upload_artifacts success
upload_artifacts_2 skipped
upload_junit success
upload_dotenv success`
	onFailure := `dotenv success
save_cache skipped
save_cache_2 success
save_cache_3 success
upload_artifacts skipped
upload_artifacts_2 success
upload_junit success
upload_dotenv success`
	for _, c := range []struct {
		name   string
		world  world
		change func(*compile.Job)
		want   string
		status event.Status
		code   int
		log    string
	}{
		{name: "that succeeds", want: begun + "script success\nafter_script success\n" + onSuccess, status: event.Success, log: "script\n it is success\n"},
		{
			name: "whose script fails", change: func(j *compile.Job) { j.Script = []string{"echo script", "(exit 42)", "echo never"} },
			want: begun + "script failure\nafter_script success\n" + onFailure, status: event.Failure, code: 42, log: "it is failed\n",
		},
		{
			name: "whose script takes too long", change: func(j *compile.Job) { j.Script, j.ScriptTimeout = []string{"sleep 60"}, 50*time.Millisecond },
			want: begun + "script failure\nafter_script success\n" + onFailure, status: event.Failure, code: -1, log: "it is failed\n",
		},
		{
			name: "whose sources cannot be had", world: world{fail: map[string]int{"git/checkout": 5}},
			want:   "pre_get_sources success\nget_sources failure\nrestore_cache skipped\nrestore_cache_2 skipped\nrestore_cache_3 skipped\ndownload_artifacts skipped\nscript skipped\nafter_script skipped\n" + onFailure,
			status: event.Failure, code: 5,
		},
		{
			name: "whose hook fails", change: func(j *compile.Job) { j.PreGetSources = []string{"exit 6"} },
			want:   "pre_get_sources failure\nget_sources skipped\nrestore_cache skipped\nrestore_cache_2 skipped\nrestore_cache_3 skipped\ndownload_artifacts skipped\nscript skipped\nafter_script skipped\n" + onFailure,
			status: event.Failure, code: 6,
		},
		{
			name: "that cannot have the artifacts of another", world: world{fail: map[string]int{"artifacts/download": 7}},
			want:   strings.Replace(begun, "artifacts success", "artifacts failure", 1) + "script skipped\nafter_script skipped\n" + onFailure,
			status: event.Failure, code: 7,
		},
		{
			name: "whose after_script fails", change: func(j *compile.Job) { j.AfterScript = []string{"exit 8"} },
			want: begun + "script success\nafter_script failure (allowed)\n" + onSuccess, status: event.Success,
		},
		{
			name: "whose after_script takes too long", change: func(j *compile.Job) { j.AfterScript, j.AfterScriptTimeout = []string{"sleep 60"}, 50*time.Millisecond },
			want: begun + "script success\nafter_script failure (allowed)\n" + onSuccess, status: event.Success,
		},
		{
			name: "whose after_script must not fail", change: func(j *compile.Job) {
				j.AfterScript = []string{"exit 8"}
				j.Variables = vars("AFTER_SCRIPT_IGNORE_ERRORS=false")
			},
			want: begun + "script success\nafter_script failure\n" + onFailure, status: event.Failure, code: 8,
		},
		{
			name: "whose caches cannot be kept", world: world{fail: map[string]int{"cache/save": 9}},
			want:   begun + "script success\nafter_script success\n" + strings.NewReplacer("save_cache success", "save_cache failure (allowed)", "save_cache_3 success", "save_cache_3 failure (allowed)").Replace(onSuccess),
			status: event.Success,
		},
		{
			name: "whose artifacts cannot be kept", world: world{fail: map[string]int{"artifacts/upload": 10}},
			want: begun + "script success\nafter_script success\n" + strings.NewReplacer("upload_artifacts success", "upload_artifacts failure",
				"upload_artifacts_2 skipped", "upload_artifacts_2 failure", "upload_junit success", "upload_junit failure", "upload_dotenv success", "upload_dotenv failure").Replace(onSuccess),
			status: event.Failure, code: 10,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := whole()
			if c.change != nil {
				c.change(j)
			}
			r := c.world.run(t, j)
			if diff := cmp.Diff(c.want, outline(r)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			code := 0
			if r.ExitCode != nil {
				code = *r.ExitCode
			}
			if r.Status != c.status || c.code >= 0 && code != c.code {
				t.Errorf("status %s, code %d; want %s, %d: %+v", r.Status, code, c.status, c.code, r.Error)
			}
			if _, last, _ := strings.Cut(c.log, "\n "); !strings.Contains(r.log, last) {
				t.Errorf("the log does not say %q:\n%s", last, r.log)
			}
		})
	}
}

func TestAJobThatIsStopped(t *testing.T) {
	needShell(t)
	j := whole()
	j.Script = []string{"echo begun; sleep 60"}
	compiled, err := compile.Compile(j)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	r := world{}.runPlan(t, ctx, compiled, compiled.Plan, func(e event.Event) {
		if l, ok := e.Body.(event.Log); ok && strings.Contains(string(l.Data), "begun\n") {
			cancel(errors.New("asked to stop"))
		}
	})
	want := `script cancelled
after_script success
dotenv success
save_cache skipped
save_cache_2 success
save_cache_3 success
upload_artifacts skipped
upload_artifacts_2 success
upload_junit success
upload_dotenv success`
	if got := outline(r); !strings.HasSuffix(got, want) || r.Status != event.Cancelled {
		t.Errorf("status %s, -want +got\n%s", r.Status, cmp.Diff(want, got))
	}
	if !strings.Contains(r.log, "it is canceled\n") {
		t.Error(r.log)
	}
}

func TestVariablesReachTheScriptAndNothingIsEvaluated(t *testing.T) {
	needShell(t)
	c := masked(vars("PLAIN=a b", "URL=https://me:$SECRET@example.com", "QUOTES='\"`", "ESCAPED=$$HOME"), "SECRET", "hunter2hunter2")
	c.Add(
		variable.Variable{Name: "RAW", Value: `${{ vars.SECRET }} $PLAIN \${{ x }}`, Raw: true},
		variable.Variable{Name: "FILE", Value: "content\n", File: true},
	)
	j := &compile.Job{Variables: c, Temp: t.TempDir(), Source: compile.Source{None: true}, Script: []string{
		`printf '%s\n' "$PLAIN" "$QUOTES" "$ESCAPED" "$RAW"`, `echo '${{ vars.SECRET }}'`, `echo "$SECRET $URL"`, `cat "$FILE"`, `test ${#SECRET} = 14`, `echo "deploying with hunter2hunter2"`, "make=1", "echo $make",
	}}
	r := world{}.run(t, j)
	if r.Status != event.Success {
		t.Fatalf("%+v\n%s", r.Error, r.log)
	}
	for _, want := range []string{
		"a b\n'\"`\n$HOME\n${{ vars.SECRET }} $PLAIN \\${{ x }}\n", "\n${{ vars.SECRET }}\n", "\n[MASKED] https://me:[MASKED]@example.com\n", "\ncontent\n",
		"$ echo \"deploying with [MASKED]\"", "\ndeploying with [MASKED]\n", "$ make=1\x1b", "$ echo $make",
	} {
		if !strings.Contains(r.log, want) {
			t.Errorf("the log does not say %q:\n%s", want, r.log)
		}
	}
}

func TestThePlanThatIsWrittenGivesTheSameJob(t *testing.T) {
	needShell(t)
	j := whole()
	j.Script = []string{"cd /", "cat <<'EOF'\n${{ data }} $CI_JOB_STATUS\nEOF", "echo 'a: b' # c"}
	compiled, err := compile.Compile(j)
	if err != nil {
		t.Fatal(err)
	}
	text, err := gitlabsteps.Write(compiled.Plan)
	if err != nil {
		t.Fatal(err)
	}
	again, err := gitlabsteps.ParseSteps("plan.yml", text)
	if err != nil {
		t.Fatal(err)
	}
	one, two := world{}.runPlan(t, t.Context(), compiled, compiled.Plan, nil), world{}.runPlan(t, t.Context(), compiled, again, nil)
	if diff := cmp.Diff(one.log+outline(one), two.log+outline(two)); diff != "" || one.Status != event.Success {
		t.Errorf("%s: %s", one.Status, diff)
	}
}

// TestEveryStepTakesItsInputs runs all jobs of the golden tests: the specs of the real steps check what they are given.
func TestEveryStepTakesItsInputs(t *testing.T) {
	needShell(t)
	for name, j := range jobs() {
		switch name {
		case "pwsh", "native", "git", "hello_in_place": // need PowerShell, a component, and a proxy; the last calls none
			continue
		}
		t.Run(name, func(t *testing.T) {
			if j.Temp != "" {
				j.Temp = t.TempDir()
			}
			for i := range j.Cache {
				j.Cache[i].Secrets = nil
			}
			if len(j.Script) > 0 && name != "scripts" {
				j.Script = []string{"true"}
			}
			r := world{}.run(t, j)
			if r.Status != event.Success {
				t.Errorf("%+v\n%s", r.Error, r.log)
			}
			if calls, err := os.ReadFile(filepath.Join(r.dir, "calls")); err != nil || len(calls) == 0 {
				t.Errorf("no step was called: %v", err)
			}
		})
	}
	t.Run("git", func(t *testing.T) {
		j := jobs()["git"]
		j.Script = []string{"true"}
		if r := (world{}).run(t, j); r.Status != event.Success {
			t.Errorf("%+v\n%s", r.Error, r.log)
		}
	})
}

// Git in the job's own commands has the job's token for its server and GitLab, and for nobody else.
func TestGitInScriptsLogsInAsTheJob(t *testing.T) {
	needShell(t)
	program, err := sourcetest.GitProgram()
	if err != nil {
		t.Skip("needs git: ", err)
	}
	repos := t.TempDir()
	if out, err := exec.Command(program, "init", "--quiet", "--bare", filepath.Join(repos, "p.git")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	serve := func() string {
		server, err := sourcetest.StartGitHTTP(sourcetest.GitOptions{Repos: repos, User: "gitlab-ci-token", Password: "glcbt-own"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		return server.URL
	}
	mirror, gitlab, other := serve(), serve(), serve()
	const ask = `for server in MIRROR GITLAB OTHER; do GIT_TERMINAL_PROMPT=0 git ls-remote "$server/p.git" 2>/dev/null && echo yes || echo no; done`
	for name, c := range map[string]struct {
		source compile.Source
		vars   []string
		script string // before it asks
		want   string
	}{
		"":                              {source: compile.Source{URL: mirror + "/p.git"}, want: "yes yes no"},
		"GIT_STRATEGY is none":          {source: compile.Source{URL: mirror + "/p.git"}, vars: []string{"GIT_STRATEGY=none"}, want: "yes yes no"},
		"settings of the job":           {source: compile.Source{URL: mirror + "/p.git"}, vars: []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url." + gitlab + "/.insteadOf", "GIT_CONFIG_VALUE_0=" + other + "/"}, want: "yes yes yes"},
		"settings in the way of ours":   {source: compile.Source{URL: mirror + "/p.git"}, vars: []string{"GIT_CONFIG_PARAMETERS='a.b=c'"}, want: "no no no"},
		"another helper":                {source: compile.Source{URL: mirror + "/p.git"}, script: `git config --file config credential.helper '!echo password=wrong; echo username=x; :'; export GIT_CONFIG_GLOBAL=$PWD/config; `, want: "yes yes no"},
		"git -c":                        {source: compile.Source{URL: mirror + "/p.git"}, script: `git() { command git -c a.b=c "$@"; }; `, want: "yes yes no"},
		"a script without the token":    {source: compile.Source{URL: mirror + "/p.git"}, script: "unset CI_JOB_TOKEN; ", want: "no no no"},
		"a job that is not of a runner": {source: compile.Source{WorkTree: "/p"}, want: "no no no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := []string{c.script + strings.NewReplacer("MIRROR", mirror, "GITLAB", gitlab, "OTHER", other).Replace(ask)}
			compiled, err := compile.Compile(&compile.Job{
				Name: "git", Source: c.source, Variables: masked(vars(append(c.vars, "CI_SERVER_URL="+gitlab)...), "CI_JOB_TOKEN", "glcbt-own"), Shell: "sh", Script: lines, AfterScript: lines,
			})
			if err != nil {
				t.Fatal(err)
			}
			if has := slices.ContainsFunc(compiled.Shell, func(v variable.Variable) bool { return strings.Contains(v.Value, "credential."+gitlab) }); c.script == "" && has != strings.HasPrefix(c.want, "yes") {
				t.Errorf("the shell of a person logs in: %t", has)
			}
			r := world{}.runPlan(t, t.Context(), compiled, compiled.Plan, nil)
			answers := strings.Fields(strings.Join(regexp.MustCompile(`(?m)^(yes|no)$`).FindAllString(r.log, -1), " "))
			if got, want := strings.Join(answers, " "), c.want+" "+c.want; got != want {
				t.Errorf("the servers let git in: %s, want %s\n%s", got, want, r.log)
			}
		})
	}
}
