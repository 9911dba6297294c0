package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rungci/rung/executor"
)

// PluginExecutor is the executor of entries whose jobs run where a plugin says.
const PluginExecutor = "plugin"

// KubernetesExecutor is the executor of entries whose jobs are pods.
const KubernetesExecutor = "kubernetes"

// PluginLevel is the level of an entry whose plugin says itself, once it is open, what its level is called and how strong it is.
const PluginLevel executor.Level = "plugin"

// Executors are those of gitlab-runner and ours, with the level of isolation that stands for them.
var executors = map[string]struct {
	level executor.Level
	why   string // it is not run; empty if it is
}{
	"shell":              {executor.None, ""},
	"ssh":                {executor.None, ""},
	"docker":             {executor.Container, ""},
	"custom":             {executor.None, ""}, // a driver does not say how well it isolates
	PluginExecutor:       {PluginLevel, ""},
	"docker-autoscaler":  {executor.Container, needsMachines},
	"docker+machine":     {executor.Container, needsMachines},
	"instance":           {executor.Instance, needsMachines},
	"docker-windows":     {executor.Container, "there are no Windows containers here"},
	KubernetesExecutor:   {executor.Container, ""}, // a runtime class may make them sandboxes
	"parallels":          {"", "there is no executor for Parallels"},
	"virtualbox":         {"", "there is no executor for VirtualBox"},
	"docker-ssh":         {"", "gitlab-runner has removed it"},
	"docker-ssh+machine": {"", "gitlab-runner has removed it"},
}

// Executors are the names of those that can be written, in order; not all of them can be run here.
func Executors() []string { return slices.Sorted(maps.Keys(executors)) }

// needsMachines is why executors are not run whose machines are somebody else's, where nobody provides them.
const needsMachines = "its machines come from a fleet (runners.autoscaler; runners.machine for docker+machine) or a provider (runners.provider), and it has neither"

// RefusedError says that an entry cannot be run here.
type RefusedError struct {
	Executor, Why string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("jobs of executor %q cannot be run: %s", e.Executor, e.Why)
}

// InvalidError says that what the file says of an entry cannot be meant.
type InvalidError struct {
	Line    int // of the file
	Message string
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("line %d of the configuration: %s", e.Line, e.Message)
}

// Levels are those of an entry.
type Levels struct {
	Default, Minimum executor.Level
	Allowed          []executor.Level // what jobs may ask for, with the default
}

// Levels returns the levels of isolation that the entry's jobs get: those of [runners.isolation], else that of its executor. The error is a
// *RefusedError if there is no place for its jobs here, and an *InvalidError if something is wrong with the entry.
func (r *Runner) Levels() (Levels, error) {
	if r.invalid != nil {
		return Levels{}, r.invalid
	}
	of, known := executors[r.Executor]
	switch {
	case !known:
		return Levels{}, &RefusedError{r.Executor, "there is no such executor"}
	case r.refused() != "":
		return Levels{}, &RefusedError{r.Executor, r.refused()}
	}
	l := Levels{Default: of.level}
	if m := r.machinery(); m != nil {
		l.Default = m.level()
	}
	if r.Isolation.Default != "" {
		l.Default = executor.Level(r.Isolation.Default)
	}
	if l.Minimum = l.Default; l.Default == PluginLevel {
		l.Minimum = executor.None
	}
	for _, name := range r.Isolation.Allowed {
		level := executor.Level(name)
		l.Allowed = append(l.Allowed, level)
		if level.Rank() < l.Minimum.Rank() {
			l.Minimum = level
		}
	}
	if !slices.Contains(l.Allowed, l.Default) {
		l.Allowed = append(l.Allowed, l.Default)
	}
	if r.Isolation.Minimum != "" {
		l.Minimum = executor.Level(r.Isolation.Minimum)
		l.Allowed = slices.DeleteFunc(l.Allowed, func(a executor.Level) bool { return a != PluginLevel && a.Rank() < l.Minimum.Rank() })
	}
	return l, nil
}

// refused says why the jobs of the entry's executor are not run; empty if they are.
func (r *Runner) refused() string {
	why := executors[r.Executor].why
	if why != needsMachines {
		return why
	}
	if m := r.machinery(); m != nil {
		return refusedFleet(m)
	}
	if r.provided() {
		return ""
	}
	return why
}

// Permit reports whether a job may have a level that it asks for. The error names the rule.
func (l Levels) Permit(asked executor.Level) error {
	switch {
	case asked.Rank() < l.Minimum.Rank():
		return fmt.Errorf("isolation level %q is weaker than %q, the minimum of this runner (runners.isolation.minimum)", asked, l.Minimum)
	case !slices.Contains(l.Allowed, asked):
		return fmt.Errorf("isolation level %q is not one of those that this runner allows (runners.isolation.allowed): %v", asked, l.Allowed)
	}
	return nil
}

// Admit reports whether jobs may run at a level that is open. Only of a plugin this is not known before. The error names the rule.
func (l Levels) Admit(opened executor.Executor) error {
	if executor.RankOf(opened) >= l.Minimum.Rank() {
		return nil
	}
	return fmt.Errorf("isolation level %q is weaker than %q, the minimum of this runner (runners.isolation.minimum); a plugin that declares no rank counts as %q",
		opened.Level(), l.Minimum, executor.None)
}
