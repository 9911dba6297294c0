package github

import (
	"maps"
	"strings"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/value"
)

// surroundings is what the github and runner contexts are made of, wherever they are asked for.
type surroundings struct {
	context                     value.Value // what ${{ context }} reads
	variable                    func(name string) value.Value
	workDir, actionDir, tempDir string
	permissions                 map[string]string // what is left of the job's; nil is all of them
}

// github is the github context.
func (s surroundings) github() value.Value {
	fields := map[string]value.Value{
		"server_url":  value.OfString("https://github.com"), // actions take any other for GitHub Enterprise, and refuse some services
		"api_url":     value.OfString("https://api.github.com"),
		"graphql_url": value.OfString("https://api.github.com/graphql"),
		"event":       value.OfStruct(map[string]value.Value{}),
	}
	given, ok := s.context.Fields()["github"]
	if ok {
		for name, v := range given.Fields() {
			fields[name] = v.Mark(given.Marked())
		}
	} else {
		s.fromJob(fields)
	}
	if path, ok := field(s.context, "rung").Fields()["event_path"]; ok {
		fields["event_path"] = path
	}
	fields["workspace"], fields["action_path"] = value.OfString(s.workDir), value.OfString(s.actionDir)
	return value.OfStruct(fields)
}

// jobFields are the fields of the github context that a variable of a GitLab job has the value of.
var jobFields = map[string]string{
	"actor":            "GITLAB_USER_LOGIN",
	"actor_id":         "GITLAB_USER_ID",
	"base_ref":         "CI_MERGE_REQUEST_TARGET_BRANCH_NAME",
	"head_ref":         "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME",
	"job":              "CI_JOB_NAME",
	"ref_name":         "CI_COMMIT_REF_NAME",
	"repository":       "CI_PROJECT_PATH",
	"repository_id":    "CI_PROJECT_ID",
	"repository_owner": "CI_PROJECT_NAMESPACE",
	"run_id":           "CI_PIPELINE_ID",
	"run_number":       "CI_PIPELINE_IID",
	"sha":              "CI_COMMIT_SHA",
	"triggering_actor": "GITLAB_USER_LOGIN",
	"workflow":         "CI_PIPELINE_NAME",
}

// events are GitHub's names of what GitLab starts pipelines for; others are the same, or there is no such thing.
var events = map[string]string{
	"merge_request_event": "pull_request",
	"web":                 "workflow_dispatch",
	"api":                 "workflow_dispatch",
	"trigger":             "repository_dispatch",
}

// fromJob sets what the variables of a GitLab job say. What they do not say is not there.
func (s surroundings) fromJob(fields map[string]value.Value) {
	for name, variable := range jobFields {
		if v := s.variable(variable); v.Str() != "" {
			fields[name] = v
		}
	}
	if source := s.variable("CI_PIPELINE_SOURCE").Str(); source != "" {
		fields["event_name"] = value.OfString(textOr(value.OfString(events[source]), source))
		fields["run_attempt"] = value.OfString("1")
	}
	if protected := s.variable("CI_COMMIT_REF_PROTECTED").Str(); protected != "" {
		fields["ref_protected"] = value.OfBool(protected == "true")
	}
	name, kind, folder := s.variable("CI_COMMIT_REF_NAME").Str(), "branch", "refs/heads/"
	if tag := s.variable("CI_COMMIT_TAG").Str(); tag != "" {
		name, kind, folder = tag, "tag", "refs/tags/"
	}
	if name == "" {
		return
	}
	fields["ref"], fields["ref_type"] = value.OfString(folder+name), value.OfString(kind)
	if path := s.variable("CI_MERGE_REQUEST_REF_PATH").Str(); path != "" {
		fields["ref"] = value.OfString(path)
	}
}

// runner is the runner context: this machine, and what a workflow says beyond it.
func (s surroundings) runner() value.Value {
	fields := map[string]value.Value{"name": value.OfString("rung"), "environment": value.OfString("self-hosted"), "debug": value.OfString("")}
	given := s.context.Fields()["runner"]
	for name, v := range given.Fields() {
		fields[name] = v.Mark(given.Marked())
	}
	if s.variable("RUNNER_DEBUG").Str() == "1" {
		fields["debug"] = value.OfString("1")
	}
	maps.Copy(fields, map[string]value.Value{
		"os": value.OfString(runnerOS()), "arch": value.OfString(runnerArch()), "temp": value.OfString(s.tempDir),
		"tool_cache": value.OfString(toolCache(engine.ToolkitProcess{Context: s.context, TempDir: s.tempDir})),
		"workspace":  value.OfString(parentFolder(s.workDir)),
	})
	return value.OfStruct(fields)
}

// stepContext is what an expression sees of a step that has ended.
func stepContext(step value.Value) value.Value {
	fields := step.Fields()
	conclusion := fields["status"]
	if fields["allowed"].Bool() {
		conclusion = value.OfString("success")
	}
	return value.OfStruct(map[string]value.Value{"outcome": fields["status"], "conclusion": conclusion, "outputs": fields["outputs"]}).Mark(step.Marked())
}

// stepName is the name that a step with GitHub's id has in a plan, in lower case.
func stepName(id string) string { return strings.ToLower(strings.ReplaceAll(id, "-", "_")) }
