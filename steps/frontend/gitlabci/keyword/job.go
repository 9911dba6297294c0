package keyword

import (
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/rule"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// Limits of jobs.
const (
	// MaxRetries is how often a job may be tried again.
	MaxRetries = 2
	// MaxTags is how many tags a job may have.
	MaxTags = 50
	// MaxTimeout is the longest timeout: a month as GitLab counts it here, a twelfth of a year of 365.2425 days.
	MaxTimeout = 2_629_746 * time.Second
)

// triggerKeys are the keywords of a job that triggers a pipeline, or takes over the status of one.
var triggerKeys = []string{"allow_failure", "environment", "except", "extends", "inherit", "interruptible", "manual_confirmation", "needs",
	"only", "parallel", "resource_group", "rules", "stage", "trigger", "variables", "when"}

// retryReasons are what `retry:when` can name, GitLab's older names and newer ones.
var retryReasons = []string{"always", "unknown_failure", "script_failure", "api_failure", "stuck_or_timeout_failure",
	"runner_system_failure", "missing_dependency_failure", "runner_unsupported", "stale_schedule", "job_execution_timeout",
	"archived_failure", "unmet_prerequisites", "scheduler_failure", "data_integrity_failure", "forward_deployment_failure",
	"user_blocked", "project_deleted", "ci_quota_exceeded", "pipeline_loop_detected", "no_matching_runner", "trace_size_exceeded",
	"builds_disabled", "environment_creation_failure", "deployment_rejected", "failed_outdated_deployment_job",
	"runner_configuration_error", "runner_external_dependency_failure", "runner_interrupted", "runner_provisioning_timeout",
	"stuck_pending_no_matching_runners", "stuck_pending_with_matching_runners", "stuck_pending_no_runners_online"}

// jobReader reads jobs, with a reader for each group of their keywords.
type jobReader struct {
	*values
	*stageReader
	artifactReader
	cacheReader
	deliveryReader
	imageReader
	inputReader
	matrixReader
	needReader
	ruleReader
	scriptReader
	secretReader
	triggerReader
	variableReader
	workflowReader
}

func newJobReader(v *values, stages *stageReader) *jobReader {
	variables := variableReader{v}
	matrix := matrixReader{v}
	needs := needReader{v, matrix}
	rules := ruleReader{v, variables, needs, &rule.Cache{}}
	return &jobReader{
		values: v, stageReader: stages, artifactReader: artifactReader{v}, cacheReader: cacheReader{v}, deliveryReader: deliveryReader{v},
		imageReader: imageReader{v, variables}, inputReader: inputReader{v}, matrixReader: matrix, needReader: needs,
		ruleReader: rules, scriptReader: scriptReader{v}, secretReader: secretReader{v}, triggerReader: triggerReader{v},
		variableReader: variables, workflowReader: workflowReader{v, rules},
	}
}

// job reads one job. workflowRules says that the pipeline has rules of its own.
func (r *jobReader) job(c *config.Job, workflowRules bool) *Job {
	j := &Job{Name: c.Name, Stage: DefaultStage, Node: c.Body, Key: c.Key, Inherits: c.Variables, When: when.OnSuccess}
	r.readKeywords(j, c, r.isTrigger(c))
	j.Legacy.WorkflowRules = workflowRules
	r.agree(j, r.isTrigger(c))
	return j
}

// isTrigger reports whether a job triggers a pipeline or takes over the status of one, and so runs no script.
func (r *jobReader) isTrigger(c *config.Job) bool {
	if c.Trigger {
		return true
	}
	if !c.Body.Get("script").IsNull() || !c.Body.Get("run").IsNull() {
		return false
	}
	needs := c.Body.Get("needs")
	for _, need := range needs.Flat() {
		if !need.Get("pipeline").IsNull() && need.Get("job").IsNull() {
			return true
		}
	}
	return false
}

// readKeywords reads the keywords of a job.
func (r *jobReader) readKeywords(j *Job, c *config.Job, trigger bool) {
	body, stageAt := c.Body, j.Key
	if c.Lacking {
		stageAt = config.Node{} // it may have one in what it lacks
	}
	for key, v := range body.Entries() {
		if v.IsNull() {
			continue
		}
		name := key.Text()
		if trigger && !slices.Contains(triggerKeys, name) && slices.Contains(config.JobKeywords(), name) {
			if !byDefault(key) { // a job that takes over a status gets the defaults of a job with a script, which say nothing to it
				r.notInTrigger(key, body)
			}
			continue
		}
		switch name {
		case "stage":
			j.Stage, stageAt = r.filled(v, name), v
			if j.Stage == "" {
				stageAt = config.Node{} // which is reported already
			}
		case "trigger":
			j.Trigger = r.trigger(v)
		case "needs":
			j.Needs = r.needs(v, name, needsIn(trigger))
		case "parallel":
			j.Parallel = r.parallel(v, trigger)
		case "when":
			j.When = r.when(v, trigger)
		case "allow_failure":
			j.AllowFailure = r.allowFailure(v, trigger)
		default:
			if !r.scripting(j, name, v) && !r.deciding(j, name, v) {
				r.delivering(j, name, v)
			}
		}
	}
	if stageAt.Exists() {
		r.stage(j.Stage, stageAt)
	}
}

func needsIn(trigger bool) needsOf {
	if trigger {
		return needsOfTrigger
	}
	return needsOfJob
}

func (r *jobReader) notInTrigger(key, body config.Node) {
	if !body.Get("trigger").IsNull() {
		r.report(key, "delete it, or make two jobs", "a job with `trigger` runs nothing itself and cannot have `%s`", key.Text())
		return
	}
	r.report(key, "delete it, or add a `script:`", "a job that mirrors the status of another pipeline runs nothing itself and cannot have `%s`", key.Text())
}

// scripting reads the keywords of what runs and in what. It reports false for others, as the next two do.
func (r *jobReader) scripting(j *Job, name string, v config.Node) bool {
	switch name {
	case "script":
		j.Script = r.script(v)
	case "before_script":
		j.BeforeScript = r.lines(v, name)
	case "after_script":
		j.AfterScript = r.lines(v, name)
	case "run":
		j.Run = r.run(v)
	case "hooks":
		j.Hooks = r.hooks(v)
	case "image":
		j.Image = r.image(v)
	case "services":
		j.Services = r.services(v)
	case "variables":
		j.Variables = r.variables(v, name, jobVariable)
	case "tags":
		j.Tags = r.atMost(v, name, MaxTags)
	case "timeout":
		_, j.Timeout = r.duration(v, name, period{limit: MaxTimeout, most: "a month"})
	case "id_tokens":
		j.IDTokens = r.idTokens(v)
	case "secrets":
		j.Secrets = r.secrets(v)
	case "identity":
		j.Identity = r.choice(v, name, "google_cloud", "aws")
	case "inputs":
		j.Inputs = r.inputs(v)
	default:
		return false
	}
	return true
}

// deciding reads the keywords of whether and when a job runs.
func (r *jobReader) deciding(j *Job, name string, v config.Node) bool {
	switch name {
	case "rules":
		j.Rules = r.ruleList(v, name, jobRules)
	case "only":
		j.Legacy.Only = r.policy(v, name)
	case "except":
		j.Legacy.Except = r.policy(v, name)
	case "start_in":
		j.StartIn = r.startIn(v)
	case "manual_confirmation":
		j.Confirmation = r.filled(v, name)
	case "interruptible":
		j.Interruptible = r.boolean(v, name)
	case "retry":
		j.Retry = r.retry(v)
	case "resource_group":
		j.ResourceGroup = r.filled(v, name)
	default:
		return false
	}
	return true
}

// delivering reads the keywords of what a job gets from others and leaves behind.
func (r *jobReader) delivering(j *Job, name string, v config.Node) bool {
	switch name {
	case "dependencies":
		j.Dependencies = r.texts(v, name)
	case "cache":
		j.Cache = r.caches(v)
	case "artifacts":
		j.Artifacts = r.artifacts(v)
	case "coverage":
		j.Coverage = r.coverage(v)
	case "environment":
		j.Environment = r.environment(v)
	case "release":
		j.Release = r.release(v)
	case "dast_configuration":
		j.DAST = r.dast(v)
	default: // pages and publish are read together, the others are the configuration's
		return false
	}
	return true
}

// when reads `when:` of a job.
func (r *jobReader) when(n config.Node, trigger bool) when.When {
	options := []when.When{when.OnSuccess, when.OnFailure, when.Always, when.Manual}
	if !trigger {
		options = append(options, when.Delayed)
	}
	switch text := n.Text(); {
	case text == string(when.Never):
		r.report(n, "use `rules:` with `when: never`, or delete the job", "`when: never` is for rules")
		return when.OnSuccess
	case trigger && text == string(when.Delayed):
		r.report(n, "delay a job that it needs instead", "a job that triggers a pipeline cannot be delayed")
		return when.OnSuccess
	}
	if w := r.choice(n, "when", words(options...)...); w != "" {
		return when.When(w)
	}
	return when.OnSuccess
}

// allowFailure reads `allow_failure:` of a job.
func (r *jobReader) allowFailure(n config.Node, trigger bool) AllowFailure {
	out := AllowFailure{Set: true}
	switch {
	case isBoolean(n) || trigger:
		out.Always = r.boolean(n, "allow_failure")
	case n.Kind() == yamlsource.Mapping:
		for _, v := range r.fields(n, "allow_failure", []string{"exit_codes"}) {
			out.ExitCodes = r.numbers(v, "allow_failure:exit_codes")
		}
		if n.Get("exit_codes").IsNull() {
			r.report(n, "add `exit_codes:`, or write true or false", "`allow_failure` has no exit codes")
		}
	default:
		r.report(n, "write true, false, or `exit_codes:` under it", "`allow_failure` must be a boolean or a map, not %s", n.Kind())
	}
	return out
}

// retry reads `retry:`.
func (r *jobReader) retry(n config.Node) Retry {
	out := Retry{}
	if n.Kind() != yamlsource.Mapping {
		if _, ok := number(n); !ok && n.Kind() != yamlsource.Number && n.Kind() != yamlsource.String {
			r.report(n, "write 0, 1, 2, or a map with `max:`", "`retry` must be a whole number or a map, not %s", n.Kind())
			return out
		}
		out.Max = r.integer(n, "retry", 0, MaxRetries)
		return out
	}
	for key, v := range r.fields(n, "retry", []string{"max", "when", "exit_codes"}) {
		switch key {
		case "max":
			out.Max = r.integer(v, "retry:max", 0, MaxRetries)
		case "when":
			out.When = r.choices(v, "retry:when", retryReasons...)
		case "exit_codes":
			out.ExitCodes = r.numbers(v, "retry:exit_codes")
		}
	}
	return out
}

// coverage reads `coverage:`, a pattern between slashes.
func (r *jobReader) coverage(n config.Node) string {
	text := r.text(n, "coverage")
	if n.Kind() != yamlsource.String {
		return ""
	}
	if _, ok, err := rule.ParsePattern(text); err != nil {
		r.report(n, "write a pattern of RE2", "`coverage`: %v", err)
		return ""
	} else if !ok {
		r.report(n, "put slashes around it: '/"+shorten(strings.Trim(text, "/"))+"/'", "`coverage` is a pattern between slashes")
		return ""
	}
	return text
}

// agree reports keywords that exclude or need each other, and reads what belongs together.
func (r *jobReader) agree(j *Job, trigger bool) {
	given := func(name string) (config.Node, bool) {
		key, v := j.Node.Entry(name)
		return key, !v.IsNull()
	}
	j.Pages = r.pages(j)
	startIn, delayed := given("start_in")
	if j.Rules != nil {
		for _, name := range []string{"only", "except", "start_in"} {
			if key, ok := given(name); ok {
				r.report(key, "move it into the rules", "`%s` and `rules` exclude each other", name)
			}
		}
		if j.When == when.Delayed && !delayed {
			r.report(j.Node.Get("when"), "write `when: delayed` and `start_in:` into a rule", "a job with rules cannot be delayed as a whole")
		}
	} else if j.When == when.Delayed && !delayed {
		r.report(j.Node.Get("when"), "add `start_in:`, such as 30 minutes", "the job is delayed but has no `start_in`")
	} else if j.When != when.Delayed && delayed {
		r.report(startIn, "add `when: delayed`", "`start_in` is for jobs with `when: delayed`")
	}
	if j.Run.Exists() {
		r.withRun(j)
	}
	if trigger {
		return
	}
	if len(j.Dependencies) > 0 && len(j.Needs) > 0 { // with `needs: []` GitLab does not ask; the job gets no artifacts
		r.amongNeeds(j)
	}
}

// withRun reports scripts of a job that has steps. Those of `default:` do not reach it; Lint tells.
func (r *jobReader) withRun(j *Job) {
	for _, name := range []string{"script", "before_script", "after_script"} {
		if key, v := j.Node.Entry(name); !v.IsNull() && !byDefault(key) {
			r.report(key, "turn it into a step with `script:`", "`%s` and `run` exclude each other", name)
		}
	}
	j.BeforeScript, j.AfterScript = nil, nil
}

// byDefault reports whether a job has a keyword from `default:`.
func byDefault(key config.Node) bool {
	return slices.ContainsFunc(key.Via(), func(s config.Step) bool { return s.By == config.ByDefault || s.By == config.ByGlobal })
}

// amongNeeds reports dependencies that are not needed.
func (r *jobReader) amongNeeds(j *Job) {
	for _, it := range j.Node.Get("dependencies").Items() {
		if it.Kind() != yamlsource.String {
			continue
		}
		if !slices.ContainsFunc(j.Needs, func(n Need) bool { return n.Job == it.Text() }) {
			r.report(it, "add it to `needs:`, or delete it here", "the job depends on %q and does not need it: with `needs`, every dependency is one of them", shorten(it.Text()))
		}
	}
}

// defaults checks what `default:` and the global keywords say where no job inherits it.
func (r *jobReader) defaults(c *config.Config) {
	for key, v := range c.Default.Entries() {
		r.unused(key.Text(), v)
	}
	for _, name := range []string{"image", "services", "cache", "before_script", "after_script"} {
		if v := c.Root.Get(name); v.Exists() {
			r.unused(name, v)
		}
	}
}

// unused checks a keyword without using it. What is wrong with it has mostly been told of the jobs that inherit it.
func (r *jobReader) unused(name string, v config.Node) {
	if v.IsNull() || !slices.Contains(config.DefaultKeywords(), name) {
		return
	}
	j := &Job{}
	if !r.scripting(j, name, v) && !r.deciding(j, name, v) {
		r.delivering(j, name, v)
	}
}
