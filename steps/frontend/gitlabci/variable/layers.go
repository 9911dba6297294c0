package variable

import (
	"cmp"
	"slices"
)

// Level says where a variable comes from, and so what it overrides: variables of a higher level override those of lower ones.
type Level int

// The levels of GitLab's documentation of precedence, from the lowest to the highest.
const (
	// Predefined are the CI_* variables.
	Predefined Level = iota
	// Deployment are those of an environment's deployment, such as KUBECONFIG.
	Deployment
	// Global are those at the top level of the file, and in `default`.
	Global
	// Workflow are those of the `workflow: rules` that applied.
	Workflow
	// Job are those of a job.
	Job
	// Rules are those of the job's `rules` that applied.
	Rules
	// Dotenv are those in the dotenv reports of jobs that this one depends on.
	Dotenv
	// Instance are those of the settings of the whole GitLab.
	Instance
	// Group are those of the settings of groups. Of several groups the one that is closest to the project comes last.
	Group
	// Project are those of the settings of the project.
	Project
	// Pipeline are those that the pipeline was started with: by hand, by a trigger, a schedule, the API, or from upstream;
	// and those that a manual job was started with.
	Pipeline
	// ScanPolicy are those of scan execution policies.
	ScanPolicy
	// ExecutionPolicy are those of pipeline execution policies.
	ExecutionPolicy
)

var levelNames = [...]string{
	"predefined", "deployment", "global", "workflow rules", "job", "job rules", "dotenv", "instance", "group", "project",
	"pipeline", "scan execution policy", "pipeline execution policy",
}

// String returns what the level is called in messages.
func (l Level) String() string {
	if l < 0 || int(l) >= len(levelNames) {
		return "unknown"
	}
	return levelNames[l]
}

// private reports whether variables of the level are Private, as on GitLab: all but those predefined and those in the file.
func (l Level) private() bool { return l == Deployment || l >= Dotenv }

// Layer is variables that come from the same place.
type Layer struct {
	Level     Level
	Variables []Variable
}

// Merge puts layers into a collection, so that higher levels override lower ones. Of layers with the same level the later one
// overrides the earlier one.
func Merge(layers ...Layer) *Collection {
	sorted := slices.Clone(layers)
	slices.SortStableFunc(sorted, func(a, b Layer) int { return cmp.Compare(a.Level, b.Level) })
	c := &Collection{}
	for _, layer := range sorted {
		for _, v := range layer.Variables {
			v.Private = v.Private || layer.Level.private()
			c.Add(v)
		}
	}
	return c
}
