package github

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/value"
)

// contextVariables are the fields of the github context that processes get as variables: GITHUB_SHA is github.sha.
var contextVariables = []string{
	"actor", "actor_id", "api_url", "base_ref", "event_name", "graphql_url", "head_ref", "job", "ref", "ref_name", "ref_protected", "ref_type",
	"repository", "repository_id", "repository_owner", "repository_owner_id", "retention_days", "run_attempt", "run_id", "run_number",
	"server_url", "sha", "triggering_actor", "workflow", "workflow_ref", "workflow_sha", "workspace", "action_path",
}

// variables are what the process is given over its environment: what GitHub's runner sets, as far as it is known.
func (s *Session) variables() (map[string]string, error) {
	p := s.process
	all := surroundingsOf(p)
	github, runner := all.github(), all.runner()
	vars := stateVariables(p.State)
	for _, name := range contextVariables {
		if v := field(github, name); !v.IsNull() && !v.Sensitive() {
			vars["GITHUB_"+strings.ToUpper(name)] = v.Text()
		}
	}
	maps.Copy(vars, map[string]string{
		"GITHUB_ACTIONS": "true",
		"GITHUB_ACTION":  textOr(field(github, "action"), actionName(p.Step)),
	})
	if !p.HasEnv("CI") { // a workflow may say that it is none: env: {CI: false}, or empty
		vars["CI"] = "true"
	}
	for _, name := range []string{"os", "arch", "name", "environment", "temp", "tool_cache", "workspace"} {
		vars["RUNNER_"+strings.ToUpper(name)] = field(runner, name).Text()
	}
	if s.debug {
		vars["RUNNER_DEBUG"] = "1"
	}
	vars["GITHUB_ACTION_REPOSITORY"], vars["GITHUB_ACTION_REF"] = "", "" // of steps of the workflow, as on GitHub
	if p.Origin != nil {
		vars["GITHUB_ACTION_REPOSITORY"], vars["GITHUB_ACTION_REF"] = repositoryOf(p.Origin.URL), p.Origin.Rev
	}
	for name, file := range fileVariables {
		vars[name] = filepath.Join(s.files.dir, file)
	}
	event, err := s.job.eventFile(all)
	if err != nil {
		return nil, err
	}
	if event != "" {
		vars["GITHUB_EVENT_PATH"] = event
	}
	services, err := s.serviceVariables(all)
	maps.Copy(vars, services)
	return vars, err
}

// surroundingsOf are what the contexts of a process are made of.
func surroundingsOf(p engine.ToolkitProcess) surroundings {
	variable := func(name string) value.Value {
		if text := p.Getenv(name); text != "" {
			return value.OfString(text)
		}
		return field(p.Job, name)
	}
	return surroundings{p.Context, variable, p.WorkDir, p.ActionDir, p.TempDir, p.Permissions}
}

// field follows names into a struct; what is not there is null.
func field(v value.Value, names ...string) value.Value {
	for _, name := range names {
		v = v.Fields()[name].Mark(v.Marked())
	}
	return v
}

// textOr returns a value's text, or another where there is none.
func textOr(v value.Value, other string) string {
	if text := v.Text(); !v.IsNull() && text != "" {
		return text
	}
	return other
}

// actionName is github.action of the step with a path: its name.
func actionName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// repositoryOf returns owner/name of a repository's URL.
func repositoryOf(url string) string {
	_, rest, ok := strings.Cut(url, "://")
	if !ok {
		rest = url
	}
	if _, name, ok := strings.Cut(rest, "/"); ok {
		return strings.TrimSuffix(name, ".git")
	}
	return rest
}

// debugging reports whether somebody asked for debug messages: by a variable of the process, of the workflow, or of the runner.
func debugging(p engine.ToolkitProcess) bool {
	for _, name := range []string{"ACTIONS_STEP_DEBUG", "RUNNER_DEBUG"} {
		if isTrue(p.Getenv(name)) || isTrue(field(p.Context, "vars", name).Text()) || isTrue(field(p.Context, "secrets", name).Text()) {
			return true
		}
	}
	return isTrue(field(p.Context, "runner", "debug").Text())
}

// toolCache is where actions keep the tools that they install, for later runs.
func toolCache(p engine.ToolkitProcess) string {
	if dir := given(p.Context, keyToolCache); dir != "" {
		return dir
	}
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "rung", "tools")
	}
	return filepath.Join(p.TempDir, "_tools")
}

func runnerOS() string {
	switch runtime.GOOS {
	case "darwin":
		return "macOS"
	case "windows":
		return "Windows"
	default:
		return "Linux"
	}
}

func runnerArch() string {
	switch runtime.GOARCH {
	case "amd64":
		return "X64"
	case "386":
		return "X86"
	default:
		return strings.ToUpper(runtime.GOARCH) // ARM, ARM64
	}
}
