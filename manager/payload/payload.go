// Package payload turns a job that GitLab sent into what it means here: the place that it asks for, and the steps that it is.
//
//	gitlab.Job ─┐
//	            ├─> New ──> Job ──> Place ──> executor.Job    before there is an environment
//	Runner ─────┘            └────> Compile ─> compile.Compiled   in the one that there is
//
// Everything in a payload is untrusted: a list may be null, an option may be one that this program does not know. What would run otherwise
// than its author says is refused, with an *event.Error of a wrong definition that says what to change.
//
// Source: common/spec and common/build.go in gitlab-runner.
package payload

import (
	"cmp"
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/place"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// DefaultTimeout is that of a job for which GitLab names none.
const DefaultTimeout = 2 * time.Hour

// maxTimeout is the longest that is kept, in seconds: a year. Step-runners take no more.
const maxTimeout = 365 * 24 * 60 * 60

// Runner is what the manager says of itself to a job.
type Runner struct {
	Name              string // as the configuration calls it
	ShortToken        string // the first characters of its token, which are no secret
	Version, Revision string
	API               string // GitLab's address, ending in /api/v4
	CloneURL          string // in the place of the scheme and host of the repository's address; empty leaves it
	// Environment are variables of the configuration, NAME=value. A job's own override them.
	Environment []string
	// Scripts of the configuration, around the job's own.
	PreGetSources, PostGetSources, PreBuild, PostBuild string
	Shell                                              string
	Image                                              string         // for jobs that name none
	Services                                           []gitlab.Image // beside every job
	PullPolicies                                       []string
	// Pods says that jobs run in pods: the user of executor_opts.kubernetes counts before that of executor_opts.docker.
	Pods bool
	// NoDebugTrace keeps jobs from showing their variables by CI_DEBUG_TRACE.
	NoDebugTrace bool
	// FeatureFlags override those of the job's variables.
	FeatureFlags map[string]bool
	// Sources and Uploads are how those steps are done.
	Sources Sources
	Uploads Uploads
	// TLS is how jobs speak to GitLab.
	TLS TLS
	// ClonePath lets jobs choose their folder, by GIT_CLONE_PATH.
	ClonePath bool
	// Slot tells jobs apart that run here at once, ProjectSlot those of one project.
	Slot, ProjectSlot int
	// Attempt is how many processes were killed before the job had an environment: what they left does not stand in the way of the next.
	Attempt int
}

// Sources are how a job gets its files.
type Sources struct {
	Timeout    time.Duration // 0 is the job's
	Trusted    bool          // git trusts the folder in all steps, whoever owns it
	KeepConfig bool          // the configuration of a repository that is there stays
}

// TLS are certificates in PEM for connections to GitLab. Each may be empty.
type TLS struct {
	CA               string // what GitLab's certificate is signed by
	Certificate, Key string // of the runner
}

// Uploads are how a job sends artifacts. 0 is what the step does by itself.
type Uploads struct {
	Timeout, ResponseTimeout time.Duration
}

// Job is a job that can be run.
type Job struct {
	gitlab *gitlab.Job
	runner Runner
	vars   *variable.Collection // as they are without a place
	masked []string
	steps  []plan.Step
	inputs map[string]value.Value

	hiding sync.Mutex
	hide   weak.Pointer[mask.Set] // of masked; it takes 100 KB, and is needed when a job begins and ends
}

// New reads a job. The error, an *event.Error or diagnostics, says that the job cannot run as it is written; the Job that comes with it
// is good for saying so: it knows what must not be shown.
func New(from *gitlab.Job, r Runner) (*Job, error) {
	j := &Job{gitlab: from, runner: r}
	j.vars = j.variables(nil)
	_, _, j.masked = place.Shown(j.vars)
	j.masked = append(j.masked, j.secrets()...)
	if from.Unreadable != "" {
		err := event.NewError(event.CodeInternalError, "GitLab sent a job that this runner cannot read: %s", from.Unreadable)
		err.Hint = "update the runner"
		return j, err
	}
	if err := j.readInputs(); err != nil {
		return j, err
	}
	for name, s := range from.Secrets {
		if s.Vault == nil {
			return j, wrong("read it with a step of the job, or use a runner that can", "the secret %s is in %s, which this runner cannot read",
				name, cmp.Or(strings.Join(s.Others, ", "), "no place that it names"))
		}
	}
	return j, j.readSteps()
}

func wrong(hint, format string, args ...any) *event.Error {
	e := event.NewError(event.CodeDefinitionInvalid, format, args...)
	e.Hint = hint
	return e
}

// readSteps reads `run`, which GitLab sends as the text of a JSON array.
func (j *Job) readSteps() error {
	if j.gitlab.Run == "" || j.gitlab.Run == "null" {
		return nil
	}
	if slices.ContainsFunc(j.gitlab.Steps, func(s gitlab.Step) bool { return s.Name == "script" && len(s.Script) > 0 }) {
		return wrong("delete one of them", "a job has a script or `run`, not both")
	}
	if _, ok := j.vars.Get("STEPS"); ok {
		return wrong("delete the variable, or call it otherwise", "a job with `run` cannot have a variable STEPS")
	}
	if !strings.HasPrefix(strings.TrimSpace(j.gitlab.Run), "[") {
		return wrong("begin each step with `- `", "`run` must be a list of steps")
	}
	component, err := gitlabsteps.ParseSteps("run", []byte(j.gitlab.Run))
	if err != nil {
		return err
	}
	j.steps = component.Definition.Steps
	return nil
}

// readInputs reads the values of the job's inputs.
func (j *Job) readInputs() error {
	for _, in := range j.gitlab.Inputs {
		v, err := value.ParseJSON(in.Value.Content)
		if err != nil {
			return wrong("", "the job's input %s has no value: %v", in.Key, err)
		}
		if kind, known := value.ParseKind(in.Value.Type); known && v.Kind() != kind {
			return wrong("give it a value of its type", "the job's input %s is %s, and must be %s", in.Key, v.Kind().WithArticle(), kind.WithArticle())
		}
		if j.inputs == nil {
			j.inputs = map[string]value.Value{}
		}
		j.inputs[in.Key] = v
		if in.Value.Sensitive {
			j.masked = append(j.masked, v.Text())
		}
	}
	return nil
}

// secrets are the values that are no variables and that nobody may see.
func (j *Job) secrets() []string {
	out := []string{j.gitlab.Token}
	for _, c := range j.gitlab.Credentials {
		out = append(out, c.Password)
	}
	for _, d := range j.gitlab.Dependencies {
		out = append(out, d.Token)
	}
	for _, r := range place.Registries(j.vars) {
		out = append(out, r.Password)
	}
	if u, err := url.Parse(j.gitlab.Git.RepoURL); err == nil && u.User != nil {
		if password, ok := u.User.Password(); ok {
			out = append(out, password)
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// Folders are those of a job as its environment has them.
type Folders struct {
	Project, Builds, Temp string
	// Shared says that the environment outlives the job, as a host does.
	Shared bool
	// SlotGroup is the control group of the job's slot on its machine; "" is none.
	SlotGroup string
}

// variables are the job's, in the order in which they override each other. folders is nil as long as there is no place.
func (j *Job) variables(folders *Folders) *variable.Collection {
	vars := variable.New()
	if j.gitlab.Image != nil {
		vars.Set("CI_JOB_IMAGE", j.gitlab.Image.Name)
	} else if j.runner.Image != "" {
		vars.Set("CI_JOB_IMAGE", j.runner.Image)
	}
	for _, text := range j.runner.Environment {
		if name, content, ok := strings.Cut(text, "="); ok && name != "" {
			vars.Set(name, content)
		}
	}
	vars.Set("CI_SERVER", "yes")
	vars.Set("CI_JOB_STATUS", "running")
	vars.Set("CI_JOB_TIMEOUT", strconv.Itoa(int(j.Timeout()/time.Second)))
	vars.Set("CI_CONCURRENT_ID", strconv.Itoa(j.runner.Slot))
	vars.Set("CI_CONCURRENT_PROJECT_ID", strconv.Itoa(j.runner.ProjectSlot))
	if folders != nil {
		vars.Set("CI_BUILDS_DIR", folders.Builds)
		vars.Set("CI_PROJECT_DIR", folders.Project)
	}
	j.runner.TLS.add(vars)
	for _, v := range j.gitlab.Variables {
		vars.Add(variable.Variable{Name: v.Key, Value: v.Value, Raw: v.Raw, File: v.File, Masked: v.Masked, Private: !v.Public})
	}
	for _, in := range j.gitlab.Inputs {
		if v, ok := j.inputs[in.Key]; ok && in.Value.Sensitive {
			vars.Add(variable.Variable{Name: inputPrefix + strings.ToUpper(in.Key), Value: v.Text(), Raw: true, Masked: true})
		}
	}
	for name, on := range j.runner.FeatureFlags {
		vars.Set(name, strconv.FormatBool(on))
	}
	if j.runner.NoDebugTrace {
		vars.Set("CI_DEBUG_TRACE", "false")
	}
	vars.Set("CI_RUNNER_VERSION", j.runner.Version)
	vars.Set("CI_RUNNER_REVISION", j.runner.Revision)
	vars.Set("CI_RUNNER_EXECUTABLE_ARCH", runtime.GOOS+"/"+runtime.GOARCH)
	vars.Set("CI_RUNNER_SHORT_TOKEN", j.runner.ShortToken)
	if folders != nil {
		vars.Set("RUNNER_TEMP_PROJECT_DIR", folders.Temp)
		if folders.SlotGroup != "" {
			vars.Set("GITLAB_RUNNER_SLOT_CGROUP", folders.SlotGroup)
		}
		if folders.Shared {
			vars.Set("CI_SHARED_ENVIRONMENT", "true")
		} else {
			vars.Set("CI_DISPOSABLE_ENVIRONMENT", "true")
		}
	}
	return vars
}

// add adds the certificates as variables that are files, with the names that gitlab-runner gives them.
func (t TLS) add(vars *variable.Collection) {
	for _, v := range []variable.Variable{
		{Name: "CI_SERVER_TLS_CA_FILE", Value: t.CA}, {Name: "CI_SERVER_TLS_CERT_FILE", Value: t.Certificate}, {Name: "CI_SERVER_TLS_KEY_FILE", Value: t.Key, Masked: true},
	} {
		if v.Value != "" {
			v.File, v.Raw = true, true
			vars.Add(v)
		}
	}
}

// inputPrefix begins the names of variables that sensitive inputs are, so that what a job is compiled to does not hold them.
const inputPrefix = "RUNG_INPUT_"

// GitLab is the job as it was sent.
func (j *Job) GitLab() *gitlab.Job { return j.gitlab }

// Ref identifies the job to GitLab.
func (j *Job) Ref() gitlab.Ref { return gitlab.Ref{ID: j.gitlab.ID, Token: j.gitlab.Token} }

// Timeout is how long the job may take.
func (j *Job) Timeout() time.Duration {
	if s := j.gitlab.Runner.Timeout; s > 0 {
		return time.Duration(min(s, maxTimeout)) * time.Second
	}
	return DefaultTimeout
}

// Hide takes out of a text what is masked in the job.
func (j *Job) Hide(text string) string {
	if len(j.masked) == 0 || text == "" {
		return text
	}
	j.hiding.Lock()
	set := j.hide.Value()
	if set == nil {
		set = mask.NewSet(j.masked...)
		j.hide = weak.Make(set)
	}
	j.hiding.Unlock()
	return set.String(text)
}

// Debug reports whether the log shows what not everybody may see.
func (j *Job) Debug() bool { return j.vars.Bool("CI_DEBUG_TRACE") || j.vars.Bool("CI_DEBUG_SERVICES") }

// Flag reads a feature flag, which is byDefault where neither the job nor the configuration names it.
func (j *Job) Flag(name string, byDefault bool) bool {
	v, ok := j.vars.Get(name)
	if !ok || v.Value == "" {
		return byDefault
	}
	return j.vars.Bool(name)
}

// Variable is the value of one of the job's variables, expanded, and "" for a masked one.
func (j *Job) Variable(name string) string {
	v, ok := j.vars.Get(name)
	if !ok || v.Masked || v.File {
		return ""
	}
	if v.Raw {
		return v.Value
	}
	return j.Expand(v.Value)
}

// Expand expands a text before there is a place: files have no paths yet.
func (j *Job) Expand(text string) string {
	out, err := j.vars.ExpandInJob(text, func(string) string { return "" })
	if err != nil {
		return text
	}
	return out
}

// Identity says which job it is.
func (j *Job) Identity() event.Identity {
	id := event.Identity{
		Project: cmp.Or(j.gitlab.Info.ProjectFullPath, j.Variable("CI_PROJECT_PATH")), Ref: j.gitlab.Git.Ref, Commit: j.gitlab.Git.SHA,
		Job: j.gitlab.Info.Name, Stage: j.gitlab.Info.Stage,
	}
	if n := j.gitlab.Info.PipelineID; n != 0 {
		id.PipelineID = strconv.FormatInt(n, 10)
	} else {
		id.PipelineID = j.Variable("CI_PIPELINE_ID")
	}
	return id.Hide(j.Hide)
}

// projectName is the name of the folder of the project's files.
func (j *Job) projectName() string {
	name := cmp.Or(j.gitlab.Info.ProjectName, j.Variable("CI_PROJECT_NAME"), "project")
	if path := j.Variable("CI_PROJECT_PATH"); path != "" {
		name = path[strings.LastIndex(path, "/")+1:]
	}
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune("/\\:\x00\n", r) {
			return '-'
		}
		return r
	}, name)
	if name == "" || name == "." || name == ".." {
		return "project"
	}
	return name
}

// EnvironmentID is the name of the job's environment among those of this manager, which may have jobs of several GitLabs with one number.
func (j *Job) EnvironmentID() string {
	id := fmt.Sprintf("job-%d-%d", j.gitlab.ID, j.runner.Slot)
	if j.runner.Attempt > 0 {
		id += fmt.Sprintf("-%d", j.runner.Attempt)
	}
	return id
}
