package github

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// contextOf reads a context from JSON.
func contextOf(t testing.TB, text string) value.Value {
	t.Helper()
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVariables(t *testing.T) {
	defaults := map[string]string{
		"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_ACTION": "compile", "GITHUB_WORKSPACE": "/work/dir", "GITHUB_ACTION_PATH": "/action-dir",
		"GITHUB_SERVER_URL": "https://github.com", "GITHUB_API_URL": "https://api.github.com", "GITHUB_GRAPHQL_URL": "https://api.github.com/graphql",
		"RUNNER_NAME": "rung", "RUNNER_ENVIRONMENT": "self-hosted", "RUNNER_WORKSPACE": "/work", "RUNNER_TEMP": "/temp",
		"RUNNER_OS": runnerOS(), "RUNNER_ARCH": runnerArch(), "GITHUB_ACTION_REPOSITORY": "", "GITHUB_ACTION_REF": "",
	}
	for _, c := range []struct {
		name, context, job string
		env                map[string]string
		origin             *plan.Origin
		want               map[string]string
		none               []string
	}{
		{name: "without a workflow", context: `{}`, want: defaults, none: []string{"GITHUB_SHA", "GITHUB_EVENT_PATH", "RUNNER_DEBUG", "ACTIONS_RUNTIME_TOKEN", "ACTIONS_RUNTIME_URL", "ACTIONS_ID_TOKEN_REQUEST_URL"}},
		{name: "a workflow says that it is not CI", context: `{}`, env: map[string]string{"CI": "false"}, want: map[string]string{"GITHUB_ACTIONS": "true"}, none: []string{"CI"}},
		{name: "a workflow says so by an empty variable", context: `{}`, env: map[string]string{"CI": ""}, want: map[string]string{"GITHUB_ACTIONS": "true"}, none: []string{"CI"}},
		{
			name: "in a GitLab job", context: `{}`, job: `{"CI_COMMIT_SHA": "abc", "CI_PROJECT_PATH": "group/project", "CI_COMMIT_REF_NAME": "main"}`,
			want: map[string]string{"GITHUB_SHA": "abc", "GITHUB_REPOSITORY": "group/project", "GITHUB_REF": "refs/heads/main", "GITHUB_REF_TYPE": "branch"},
		},
		{
			name: "in a workflow",
			context: `{"github": {"sha": "abc", "ref_protected": true, "run_number": 7, "head_ref": "", "actor": "me", "job": "build", "action": "my-step", "token": "t",
				"api_url": "http://api.localhost", "event": {}, "repositoryUrl": "x"}, "runner": {"name": "r", "environment": "github-hosted"}, "rung": {"tool_cache": "/tools", "event_path": "/event.json"}}`,
			want: map[string]string{
				"GITHUB_SHA": "abc", "GITHUB_REF_PROTECTED": "true", "GITHUB_RUN_NUMBER": "7", "GITHUB_HEAD_REF": "", "GITHUB_ACTOR": "me", "GITHUB_JOB": "build",
				"GITHUB_ACTION": "my-step", "GITHUB_API_URL": "http://api.localhost", "GITHUB_EVENT_PATH": "/event.json",
				"RUNNER_NAME": "r", "RUNNER_ENVIRONMENT": "github-hosted", "RUNNER_TOOL_CACHE": "/tools",
			},
			none: []string{"GITHUB_TOKEN", "GITHUB_REPOSITORYURL", "GITHUB_EVENT", "GITHUB_REF"},
		},
		{
			name: "in an action that was fetched", context: `{}`, origin: &plan.Origin{URL: "https://github.com/actions/cache.git", Rev: "v4"},
			want: map[string]string{"GITHUB_ACTION_REPOSITORY": "actions/cache", "GITHUB_ACTION_REF": "v4"},
		},
		{name: "debug by a variable of the workflow", context: `{"vars": {"ACTIONS_STEP_DEBUG": "true"}}`, want: map[string]string{"RUNNER_DEBUG": "1"}},
		{name: "debug by the runner", context: `{"runner": {"debug": "1"}}`, want: map[string]string{"RUNNER_DEBUG": "1"}},
		{name: "debug by the environment", context: `{}`, env: map[string]string{"ACTIONS_STEP_DEBUG": "true"}, want: map[string]string{"RUNNER_DEBUG": "1"}},
		{name: "no debug", context: `{"vars": {"ACTIONS_STEP_DEBUG": "false"}}`, none: []string{"RUNNER_DEBUG"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			temp := t.TempDir()
			b := beginIn(t, world{}, c.env, func(p *engine.ToolkitProcess) {
				p.WorkDir, p.TempDir, p.Origin, p.Context = "/work/dir", temp, c.origin, contextOf(t, c.context)
				if c.job != "" {
					p.Job = contextOf(t, c.job)
				}
			})
			got := b.Env()
			for name, want := range c.want {
				if want == "/temp" {
					want = filepath.ToSlash(temp)
				}
				if text, ok := got[name]; !ok || filepath.ToSlash(text) != want {
					t.Errorf("%s is %q, want %q", name, text, want)
				}
			}
			for _, name := range c.none {
				if text, ok := got[name]; ok {
					t.Errorf("%s is %q", name, text)
				}
			}
		})
	}
	t.Run("the files of the protocol are there, and empty", func(t *testing.T) {
		b := begin(t, nil)
		for name := range fileVariables {
			if info, err := os.Stat(b.Env()[name]); err != nil || (info.Size() != 0) != (name == "GITHUB_ARTIFACTS_LIST") || filepath.Dir(b.Env()[name]) != b.files.dir {
				t.Errorf("%s is %q: %v", name, b.Env()[name], err)
			}
		}
	})
	t.Run("the event is written once", func(t *testing.T) {
		w, temp := world{}, t.TempDir()
		for range 2 {
			b := beginIn(t, w, nil, func(p *engine.ToolkitProcess) {
				p.TempDir, p.Context = temp, contextOf(t, `{"github": {"event": {"a": [1, null]}}}`)
			})
			path := b.Env()["GITHUB_EVENT_PATH"]
			text, err := os.ReadFile(path)
			if err != nil || string(text) != `{"a":[1,null]}`+"\n" && string(text) != "changed" {
				t.Fatalf("%q, %v", text, err)
			}
			if err := os.WriteFile(path, []byte("changed"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestServices starts the servers of a job for those who need them.
func TestServices(t *testing.T) {
	start := func(t *testing.T, w world, toolkit, context string) *begun {
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		return beginIn(t, w, nil, func(p *engine.ToolkitProcess) { p.Toolkit, p.Context = toolkit, contextOf(t, context) })
	}
	end := func(t *testing.T, w world) {
		for _, closer := range w {
			if err := closer.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	identity := []string{"ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL"}
	runtimeOnly := []string{"ACTIONS_CACHE_SERVICE_V2", "ACTIONS_CACHE_URL", "ACTIONS_RESULTS_URL", "ACTIONS_RUNTIME_TOKEN", "ACTIONS_RUNTIME_URL"}
	for _, c := range []struct {
		name, toolkit, context string
		want                   []string
	}{
		{"a script has none", plan.ToolkitGitHub, `{"github": {}}`, nil},
		{"an action has all", plan.ToolkitGitHubAction, `{"github": {}}`, runtimeOnly},
		{"an action that may only read caches", plan.ToolkitGitHubAction, `{"github": {}, "rung": {"cache_mode": "read"}}`, append([]string{"ACTIONS_CACHE_MODE"}, runtimeOnly...)},
		{"an action that may ask for identities", plan.ToolkitGitHubAction, `{"github": {}, "rung": {"permissions": {"id-token": "write"}}}`, slices.Sorted(slices.Values(append(slices.Clone(runtimeOnly), identity...)))},
		{"a script that may ask for identities", plan.ToolkitGitHub, `{"github": {}, "rung": {"permissions": {"id-token": "write"}}}`, identity},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := world{}
			b := start(t, w, c.toolkit, c.context)
			defer end(t, w)
			var got []string
			for name, text := range b.Env() {
				if strings.HasPrefix(name, "ACTIONS_") {
					got = append(got, name)
				}
				if strings.HasSuffix(name, "_TOKEN") && !slices.Contains(b.masked, text) {
					t.Errorf("%s is not masked", name)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("they serve until the run ends", func(t *testing.T) {
		w := world{}
		first := start(t, w, plan.ToolkitGitHubAction, `{"github": {"repository": "o/r"}}`)
		second := start(t, w, plan.ToolkitGitHubAction, `{"github": {"repository": "o/r"}}`)
		url := first.Env()["ACTIONS_RUNTIME_URL"]
		if url == "" || url != second.Env()["ACTIONS_RUNTIME_URL"] {
			t.Errorf("%q, then %q", url, second.Env()["ACTIONS_RUNTIME_URL"])
		}
		response, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.StatusCode < 400 {
			t.Errorf("status %d without a token", response.StatusCode)
		}
		http.DefaultClient.CloseIdleConnections()
		end(t, w)
		if response, err = http.Get(url); err == nil {
			response.Body.Close()
			t.Error("the server goes on")
		}
	})
	t.Run("the token of the job", func(t *testing.T) {
		w := world{}
		b := start(t, w, plan.ToolkitGitHub, `{"github": {"repository": "o/r"}}`)
		defer end(t, w)
		made, err := b.job.token("", surroundingsOf(b.process))
		again, _ := b.job.token("", surroundingsOf(b.process))
		if err != nil || made == "" || made != again {
			t.Fatalf("%q, then %q: %v", made, again, err)
		}
		script := start(t, w, plan.ToolkitGitHub, `{"github": {}}`)
		if url := script.Env()["GITHUB_API_URL"]; !strings.HasPrefix(url, "http://127.0.0.1:") || !slices.Contains(script.masked, made) {
			t.Errorf("a script behind it asks %q", url)
		}
		if own, err := b.job.token("mine", surroundingsOf(b.process)); own != "mine" || err != nil {
			t.Errorf("the user's own became %q: %v", own, err)
		}
		action := start(t, w, plan.ToolkitGitHubAction, `{"github": {}}`)
		if url := action.Env()["GITHUB_API_URL"]; url != "https://api.github.com" {
			t.Errorf("with the user's own token actions ask %q", url)
		}
	})
	t.Run("there is none without a workflow", func(t *testing.T) {
		b := begin(t, nil)
		if token, err := b.job.token("", surroundingsOf(b.process)); token != "" || err != nil {
			t.Errorf("%q, %v", token, err)
		}
	})
	t.Run("what they say is told at the end of a step", func(t *testing.T) {
		b := begin(t, nil)
		b.job.note("hello")
		_, err := b.End()
		if diff := cmp.Diff([]event.Body{event.Warning{Message: "hello"}}, b.events); err != nil || diff != "" {
			t.Error(err, diff)
		}
	})
}

func TestNode(t *testing.T) {
	root := t.TempDir()
	bin := filepath.Join(root, "bin")
	name, home := "node", root
	if runtime.GOOS == "windows" {
		name, home = "node.exe", bin
	}
	for file, text := range map[string]string{
		filepath.Join(bin, name): "", filepath.Join(home, "include", "node", "node_version.h"): "#define X\r\n#define NODE_MAJOR_VERSION 20\r\n",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w := world{}
	warnings := func(using, path string) int {
		b := beginIn(t, w, map[string]string{"PATH": path}, func(p *engine.ToolkitProcess) { p.Context = contextOf(t, `{"using": "`+using+`"}`) })
		return len(b.events)
	}
	list := string(os.PathListSeparator)
	for _, c := range []struct {
		name, using, path string
		want              int
	}{
		{"the same", "node20", bin, 0},
		{"an older one is wanted", "node16", bin, 0},
		{"a newer one is wanted", "node24", root + list + bin, 1},
		{"it is said once", "node24", bin, 0},
		{"no node", "node24", root, 0},
		{"no JavaScript", "docker", bin, 0},
	} {
		if got := warnings(c.using, c.path); got != c.want {
			t.Errorf("%s: %d warnings, want %d", c.name, got, c.want)
		}
	}
}

// BenchmarkSession is what speaking with a process costs: its files, its variables and, of a run's first action, the servers.
func BenchmarkSession(b *testing.B) {
	for _, toolkit := range []string{plan.ToolkitGitHub, plan.ToolkitGitHubAction} {
		b.Run(toolkit, func(b *testing.B) {
			b.Setenv("XDG_CACHE_HOME", b.TempDir())
			root, temp, context := b.TempDir(), b.TempDir(), contextOf(b, `{"github": {"sha": "abc", "event": {}}}`)
			for b.Loop() {
				dir := filepath.Join(root, "files")
				if err := os.Mkdir(dir, 0o700); err != nil {
					b.Fatal(err)
				}
				w := world{}
				s, err := Begin(engine.ToolkitProcess{
					Toolkit: toolkit, TempDir: temp, WorkDir: dir, Step: "a", Context: context, Once: w.once,
					Getenv: func(string) string { return "" }, Mask: func(string) {}, MadeUp: func(string) {}, Emit: func(event.Body) {},
				})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := s.End(); err != nil {
					b.Fatal(err)
				}
				for _, made := range w {
					if err := made.Close(); err != nil {
						b.Fatal(err)
					}
				}
				if err := os.RemoveAll(dir); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
