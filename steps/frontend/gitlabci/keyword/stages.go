package keyword

import (
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// The stages that every pipeline has, and the one of jobs that name none.
const (
	PreStage     = ".pre"
	PostStage    = ".post"
	DefaultStage = "test"
)

// MaxNesting is how deep lists may nest in scripts and rules.
const MaxNesting = 10

// MaxWorkflowName is how long the name of a workflow may be, in characters.
const MaxWorkflowName = 255

// stageReader reads the stages of a pipeline, and those that jobs name.
type stageReader struct {
	*values
	names  []string
	index  map[string]int
	unsure bool // there may be other stages
}

// stages reads `stages:`. A stage that is named twice is one, as GitLab has it; Lint tells.
func (r *stageReader) stages(n config.Node) []string {
	names := []string{"build", DefaultStage, "deploy"}
	if !n.IsNull() {
		names = r.stageNames(n)
		if n.Kind() == yamlsource.Sequence && holdsNothing(n) {
			r.report(n, "name the stages in their order, or delete `stages:`: then they are build, test and deploy", "`stages` is empty")
		}
	}
	r.names = append(make([]string, 0, len(names)+2), PreStage)
	seen := map[string]bool{PreStage: true, PostStage: true}
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			r.names = append(r.names, name)
		}
	}
	r.names = append(r.names, PostStage)
	r.index = make(map[string]int, len(r.names))
	for i, name := range r.names {
		r.index[name] = i
	}
	return r.names
}

// stageNames are the names in `stages:`. Lists in it stand for their items.
func (r *stageReader) stageNames(n config.Node) []string {
	if n.Kind() != yamlsource.Sequence {
		return r.texts(n, "stages")
	}
	var out []string
	for level, it := range n.Flat() {
		switch {
		case level > MaxNesting:
			r.report(it, "write the stages into one list", "`stages` nests lists deeper than %d levels, which is the limit", MaxNesting)
			return out
		case it.Kind() != yamlsource.String:
			r.item(it, "stages")
		case it.Text() == "":
			r.report(it, "give it a name", "the name of a stage is empty")
		default:
			out = append(out, it.Text())
		}
	}
	return out
}

// stage checks the stage of a job. at is its value, or the name of the job when it has none.
func (r *stageReader) stage(name string, at config.Node) {
	if _, known := r.index[name]; known || r.unsure {
		return
	}
	list := strings.Join(r.names, ", ")
	if at.Text() != name {
		r.report(at, "give it a `stage:`, or list test in `stages:`", "the job has no stage, and the default stage, test, is not one of: %s", shorten(list))
		return
	}
	r.report(at, r.suggest(name, r.names, "add it to `stages:`"), "there is no stage %q; the stages are %s", shorten(name), shorten(list))
}

// workflowReader reads `workflow:`.
type workflowReader struct {
	*values
	ruleReader
}

// workflow reads `workflow:`.
func (r workflowReader) workflow(n config.Node) Workflow {
	w := Workflow{}
	if n.IsNull() {
		return w
	}
	for key, v := range r.fields(n, "workflow", []string{"name", "rules", "auto_cancel"}) {
		switch key {
		case "name":
			w.Name = r.filled(v, "workflow:name")
			if len([]rune(w.Name)) > MaxWorkflowName {
				r.report(v, "shorten it", "the name of the workflow is longer than %d characters, which is the limit", MaxWorkflowName)
			}
		case "rules":
			w.Rules = r.ruleList(v, "workflow:rules", workflowRules)
		case "auto_cancel":
			w.OnNewCommit, w.OnJobFailure = r.autoCancel(v, "workflow:auto_cancel")
		}
	}
	return w
}

// autoCancel reads `auto_cancel:` of a workflow or of one of its rules.
func (r ruleReader) autoCancel(n config.Node, name string) (onNewCommit, onJobFailure string) {
	for key, v := range r.fields(n, name, []string{"on_new_commit", "on_job_failure"}) {
		if key == "on_new_commit" {
			onNewCommit = r.choice(v, name+":on_new_commit", "conservative", "interruptible", "none")
		} else {
			onJobFailure = r.choice(v, name+":on_job_failure", "all", "none")
		}
	}
	return onNewCommit, onJobFailure
}

// hasRules reports whether there are rules: those that are empty are some, and let nothing run.
func (w Workflow) hasRules() bool { return w.Rules != nil }

// words are the texts of moments, for messages.
func words(moments ...when.When) []string {
	out := make([]string, len(moments))
	for i, w := range moments {
		out[i] = string(w)
	}
	return out
}
