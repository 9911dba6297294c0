package workflow

import (
	"slices"

	ghexpr "github.com/rungci/rung/steps/expr/github"
)

// available is what expressions at some place may use, as GitHub's table of the availability of contexts says.
type available = *ghexpr.Available

// only makes what is available of names of contexts.
func only(contexts ...string) available { return &ghexpr.Available{Contexts: contexts} }

// and adds contexts.
func and(a available, contexts ...string) available {
	return &ghexpr.Available{Contexts: append(slices.Clone(a.Contexts), contexts...), Functions: a.Functions}
}

// calling adds functions.
func calling(a available, functions ...string) available {
	return &ghexpr.Available{Contexts: a.Contexts, Functions: functions}
}

var (
	availableNothing     = only()
	availableRunName     = only("github", "inputs", "vars")
	availableConcurrency = availableRunName
	availableCallDefault = availableRunName
	availableEnv         = only("github", "secrets", "inputs", "vars")
	availableCallOutput  = only("github", "jobs", "vars", "inputs")

	availableJob         = only("github", "needs", "vars", "inputs")
	availableJobIf       = calling(availableJob, ghexpr.StatusFunctions...)
	availableStrategy    = and(availableJob, "strategy", "matrix")
	availableJobDefaults = and(availableStrategy, "env")
	availableJobEnv      = and(availableStrategy, "secrets")
	availableCallSecrets = availableJobEnv
	availableCredentials = and(availableStrategy, "env", "secrets")
	availableContainer   = and(availableCredentials, "job", "runner")
	availableURL         = and(availableStrategy, "job", "runner", "env", "steps")
	availableOutputs     = and(availableURL, "secrets")
	availableSnapshotIf  = calling(availableURL, append(slices.Clone(ghexpr.StatusFunctions), "hashFiles")...)
)
