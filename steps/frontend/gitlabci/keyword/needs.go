package keyword

import (
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// Limits of `needs:`.
const (
	// MaxNeeds is how many jobs a job may need.
	MaxNeeds = 50
	// MaxCrossNeeds is how many of them may be of other projects, and how many of other pipelines.
	MaxCrossNeeds = 5
)

// needsOf says whose needs they are, and so which forms they can have.
type needsOf uint8

const (
	needsOfJob     needsOf = iota // jobs of this pipeline, of another one and of another project
	needsOfTrigger                // jobs of this pipeline, and another pipeline
	needsOfRule                   // jobs of this pipeline
)

// The forms of a need, by the keys that tell them apart.
var (
	jobNeedKeys      = []string{"job", "artifacts", "optional", "parallel"}
	pipelineNeedKeys = []string{"pipeline", "job", "artifacts", "parallel"}
	projectNeedKeys  = []string{"project", "job", "ref", "artifacts", "parallel"}
	mirrorNeedKeys   = []string{"pipeline", "optional"}
)

// needReader reads `needs:`.
type needReader struct {
	*values
	matrixReader
}

// needs reads `needs:`. Lists in it stand for their items, and one map for a list of it.
func (r needReader) needs(n config.Node, name string, of needsOf) []Need {
	out := make([]Need, 0, n.Len())
	if k := n.Kind(); k != yamlsource.Sequence && k != yamlsource.Mapping {
		hint := "write a list of jobs"
		if k == yamlsource.String {
			hint = "put brackets around it: [" + shorten(n.Text()) + "]"
		}
		r.report(n, hint, "`%s` must be a list of jobs, not %s", name, k)
		return out
	}
	for _, it := range n.Flat() {
		switch it.Kind() {
		case yamlsource.String:
			need := Need{Job: it.Text(), Artifacts: true, Node: it}
			if r.filled(it, name) != "" {
				out = append(out, need)
			}
		case yamlsource.Mapping:
			if need, ok := r.need(it, name, of); ok {
				out = append(out, need)
			}
		case yamlsource.Null: // GitLab drops it
		default:
			r.report(it, "write the name of a job, or a map with `job:`", "an item of `%s` must be a string or a map, not %s", name, it.Kind())
		}
	}
	r.countNeeds(n, name, out)
	return out
}

func (r needReader) countNeeds(n config.Node, name string, needs []Need) {
	local, pipelines, projects, mirrors := 0, 0, 0, 0
	for i := range needs {
		switch need := &needs[i]; {
		case need.Project != "":
			projects++
		case need.Pipeline != "" && need.UpstreamJob == "":
			mirrors++
		case need.Pipeline != "":
			pipelines++
		default:
			local++
		}
	}
	if local > MaxNeeds {
		r.report(n, "wait for a stage instead: delete `needs:`, or need a job that needs them", "`%s` names %d jobs, and the limit is %d", name, local, MaxNeeds)
	}
	if projects > MaxCrossNeeds {
		r.report(n, "", "`%s` names %d jobs of other projects, and the limit is %d", name, projects, MaxCrossNeeds)
	}
	if pipelines > MaxCrossNeeds {
		r.report(n, "", "`%s` names %d jobs of other pipelines, and the limit is %d", name, pipelines, MaxCrossNeeds)
	}
	if mirrors > 1 {
		r.report(n, "keep one", "`%s` names %d pipelines to mirror, but only one is allowed", name, mirrors)
	}
}

// need reads an item that is a map.
func (r needReader) need(n config.Node, name string, of needsOf) (Need, bool) {
	has := func(key string) bool { return !n.Get(key).IsNull() }
	out := Need{Artifacts: true, Node: n}
	keys := jobNeedKeys
	foreign := false
	switch {
	case has("project"):
		keys, foreign = projectNeedKeys, true
	case has("pipeline") && has("job"):
		keys, foreign = pipelineNeedKeys, true
	case has("pipeline"):
		keys = mirrorNeedKeys
	}
	for key, v := range r.fields(n, name, keys) {
		of := name + ":" + key
		switch key {
		case "job":
			if text := r.filled(v, of); foreign {
				out.UpstreamJob = text
			} else {
				out.Job = text
			}
		case "artifacts":
			out.Artifacts = r.boolean(v, of)
		case "optional":
			out.Optional = r.boolean(v, of)
		case "parallel":
			out.Matrix = r.needMatrix(v, of)
		case "pipeline":
			out.Pipeline = r.filled(v, of)
		case "project":
			out.Project = r.filled(v, of)
		case "ref":
			out.Ref = r.filled(v, of)
		}
	}
	missing := ""
	switch {
	case has("project") && !has("ref"):
		missing = "ref"
	case !has("job") && !has("pipeline"):
		missing = "job"
	case has("project") && !has("job"):
		missing = "job"
	}
	if missing != "" {
		r.report(n, "add `"+missing+":`", "an item of `%s` has no %s", name, missing)
		return out, false
	}
	switch {
	case of == needsOfRule && (foreign || out.Pipeline != ""):
		r.report(n, "name jobs of this pipeline", "`%s` cannot need other pipelines or projects", name)
		return out, false
	case of == needsOfTrigger && foreign:
		r.report(n, "fetch the artifacts in a job with a script", "a job that triggers a pipeline cannot need jobs of other pipelines or projects")
		return out, false
	case of == needsOfJob && out.Pipeline != "" && !foreign:
		r.report(n, "add `job:` to get its artifacts", "only a job without a script can mirror the status of another pipeline with `%s:pipeline`", name)
		return out, false
	}
	return out, out.Job != "" || foreign || out.Pipeline != ""
}

// needMatrix reads needs:parallel, which only has a matrix.
func (r needReader) needMatrix(n config.Node, name string) []MatrixEntry {
	var out []MatrixEntry
	for _, v := range r.fields(n, name, []string{"matrix"}) {
		out = r.matrix(v, name+":matrix")
	}
	return out
}
