package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/rungci/rung/cmd/rung/command/supplies"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/steps/event"
)

// entries are the levels that the configuration wants, and where it has machines from.
func (d *doctor) entries(ctx context.Context, c *config.Config) (all []finding) {
	if c == nil {
		return nil
	}
	for i := range c.Runners {
		r := &c.Runners[i]
		e := &entry{doctor: d, config: c, runner: r, name: fmt.Sprintf("%s (%s)", r.Name, r.Short())}
		wanted, err := r.Levels()
		if err != nil {
			all = append(all, e.problem("rung config lint", "%v", err))
			continue
		}
		levels := append([]executor.Level{wanted.Default}, slices.DeleteFunc(slices.Clone(wanted.Allowed), func(l executor.Level) bool { return l == wanted.Default })...)
		if r.Provider != nil {
			all = append(all, e.elsewhere(ctx, levels)...)
			continue
		}
		for _, level := range levels {
			all = append(all, e.here(ctx, level))
		}
	}
	return all
}

// entry is one entry of the configuration.
type entry struct {
	*doctor
	config *config.Config
	runner *config.Runner
	name   string // for people
}

func (e *entry) problem(fix, format string, args ...any) finding {
	return finding{"runner", statusProblem, e.name + ": " + fmt.Sprintf(format, args...), fix}
}

func (e *entry) ok(format string, args ...any) finding {
	return finding{Check: "runner", Status: statusOK, Found: e.name + ": " + fmt.Sprintf(format, args...)}
}

// here tries a level on this machine, or where the executor has it.
func (e *entry) here(ctx context.Context, level executor.Level) finding {
	if err := e.config.Placed(e.runner, config.PluginOptions, e.try(ctx, e.runner, level)); err != nil {
		return e.problem(fix(e.runner, level, err), "its jobs cannot run at level %s: %v", level, err)
	}
	if err := e.runner.NoShell(level, exec.LookPath); err != nil {
		return e.problem("install "+e.runner.Shell+", or change shell of the entry", "its jobs cannot run at level %s: %v", level, err)
	}
	return e.ok("level %s", level)
}

// elsewhere says whether the entry gets machines for its levels. What is on a machine is not known before there is one: an engine is there, and not here.
func (e *entry) elsewhere(ctx context.Context, levels []executor.Level) (all []finding) {
	for _, err := range supplies.Check(e.config, e.runner) {
		all = append(all, e.unmade(err))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, openTime, fmt.Errorf("its plugins have not answered within %s", openTime))
	defer cancel()
	unknown, wrong := supplies.Try(ctx, e.p, e.config, e.runner)
	for _, err := range wrong {
		all = append(all, e.unmade(err))
	}
	for _, plugin := range unknown {
		all = append(all, finding{Check: "runner", Status: statusWarning, Found: fmt.Sprintf("%s: the plugin %s has no schema: its options are first tried by rung run", e.name, plugin)})
	}
	supplied := len(all) == len(unknown)
	for _, level := range levels {
		if err := supplies.CheckLevel(e.runner, level); err != nil {
			all = append(all, e.problem("rung config lint", "its jobs cannot run at level %s: %v", level, err))
			continue
		}
		far := supplied && len(e.runner.Provider.Hosts) == 0
		for _, h := range e.runner.Provider.Hosts {
			if h.Address != provider.Local {
				far = supplied
				continue
			}
			all = append(all, e.local(ctx, h, level))
		}
		if far {
			all = append(all, e.ok("level %s on %s", level, e.machines()))
		}
	}
	return all
}

// unmade is an error that keeps the entry from having machines.
func (e *entry) unmade(err error) finding {
	fix := ""
	var options *config.OptionError
	if errors.As(err, &options) {
		fix = "correct the options (docs/fleet.md, docs/plugins.md)"
	}
	return e.problem(fix, "its machines cannot be made: %v", err)
}

// local tries a level on a host of the list that is this machine.
func (e *entry) local(ctx context.Context, h config.ProviderHost, level executor.Level) finding {
	if h.Level != "" {
		level = executor.Level(h.Level)
	}
	if err := e.try(ctx, e.runner, level, h.Environment...); err != nil {
		return e.problem(fix(e.runner, level, err), "its jobs cannot run at level %s on this machine: %v", level, err)
	}
	return e.ok("level %s on this machine", level)
}

// machines says what the entry's jobs run on, and what of it was not looked at.
func (e *entry) machines() string {
	switch p := e.runner.Provider; {
	case len(p.Hosts) > 0:
		return "the hosts of [[runners.provider.hosts]]; none was asked"
	case p.Machinery == nil:
		return fmt.Sprintf("machines of the provider plugin %s, whose options fit its schema; none was made", p.Name)
	case p.Machinery.Machine != nil:
		return "machines of docker-machine; none was made"
	default:
		return fmt.Sprintf("machines of %s, whose options fit; none was made, and no cloud was asked", strings.Join(p.Machinery.Plugins(), ", "))
	}
}

// fix is what to do for a level that cannot be opened: what its error says, or else what is missing most often.
func fix(r *config.Runner, level executor.Level, err error) string {
	var told *event.Error
	var missing *unfit
	switch {
	case errors.As(err, &told) && told.Hint != "":
		return told.Hint
	case r.Executor == config.KubernetesExecutor:
		return "let this machine reach the API server of the cluster: with host and ca_file in [runners.kubernetes], or a kubeconfig (KUBECONFIG); the rights that rung needs are in deploy/kubernetes"
	case errors.As(err, &missing):
		return ""
	}
	switch level {
	case executor.CGroup:
		if runtime.GOOS == "linux" {
			return "run rung as a service that systemd delegates its control group to (Delegate=yes), or try: systemd-run --user --scope -p Delegate=yes rung run"
		}
	case executor.Container:
		if errors.Is(err, fs.ErrPermission) {
			return "let this user use the engine: usermod -aG docker USER, and sign in again"
		}
		return "install Docker or Podman and start it: systemctl enable --now docker"
	case executor.Sandbox:
		return "install runsc of gVisor beside rung or in PATH (https://gvisor.dev/docs/user_guide/install; in a clone of Rung, make runsc builds it); with Docker, then: runsc install && systemctl restart docker"
	}
	return ""
}
