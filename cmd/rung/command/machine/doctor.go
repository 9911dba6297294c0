package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/quantity"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/levels"
	"github.com/rungci/rung/internal/bytesize"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/internal/scarcity"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/registration"
	"github.com/rungci/rung/manager/store"
	"github.com/rungci/rung/manager/traces"
)

// finding is what one check found.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warning or problem
	Found  string `json:"found"`
	Fix    string `json:"fix,omitempty"`
}

const (
	statusOK      = "ok"
	statusWarning = "warning"
	statusProblem = "problem"

	// openTime bounds the opening of a level, and verifyTime a question to GitLab.
	openTime   = 30 * time.Second
	verifyTime = 30 * time.Second
)

// doctor checks a machine.
type doctor struct {
	p       *command.Program
	open    Opener
	program func(system, arch string) (string, error)
	state   string
	temp    string
}

func doctorCommand(p *command.Program, open Opener, program func(system, arch string) (string, error)) *cobra.Command {
	var format, state string
	var offline bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what this machine can isolate, and what is missing",
		Long: `doctor checks the configuration, the levels of isolation that this machine has and those that the configuration wants, and whether GitLab accepts the
tokens. It says how to get what is missing. Nothing is changed.

Of an entry with machines of a fleet or a provider it checks where they come from: plugins are started, and their options checked against their schemas. No
machine is made or connected to, and no cloud is asked. The API server of a cluster, and a container engine, must answer.

Exit codes: 0 jobs can run · 2 usage · 5 something that jobs need is missing, or there is no
configuration with entries`,
		Example: `  rung doctor
  rung doctor --offline --format json`,
		Args: command.Arguments(0, 0, ""),
	}
	file := place.Flag(p, cmd)
	f := cmd.Flags()
	f.StringVarP(&format, "format", "f", "text", "print `FORMAT`: text, json")
	f.StringVar(&state, "state", "", "check the state folder `DIR` (default: as of run)")
	f.BoolVar(&offline, "offline", false, "do not ask GitLab")
	command.Complete(cmd, "format", "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if err := command.OneOf("--format", format, "text", "json"); err != nil {
			return err
		}
		if state == "" {
			if state, err = place.StateFolder(p); err != nil {
				return err
			}
		}
		temp, err := os.MkdirTemp("", "rung-doctor-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		d := &doctor{p: p, open: open, program: program, state: state, temp: temp}
		all := []finding{d.stepRunner(), d.stateFolder()}
		c, found := readConfig(file.Path())
		all = append(all, found...)
		all = append(all, d.disk(cmd.Context(), c)...)
		all = append(all, controlGroups(), kvm(), confinement())
		all = append(all, d.levels(cmd.Context())...)
		all = append(all, d.entries(cmd.Context(), c)...)
		if c != nil && !offline {
			all = append(all, reachable(cmd.Context(), file.Manager(), c)...)
		}
		if format == "json" {
			err = command.WriteJSON(p.Stdout, all)
		} else {
			err = print(p, all)
		}
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(f finding) bool { return f.Status == statusProblem }) {
			return exit.Shown(exit.System)
		}
		return nil
	}
	return cmd
}

func print(p *command.Program, all []finding) error {
	symbols := map[string]string{statusOK: "ok", statusWarning: "--", statusProblem: "XX"}
	for _, f := range all {
		if _, err := fmt.Fprintf(p.Stdout, "%s  %-12s %s\n", symbols[f.Status], f.Check, cleantext.Line(strings.ReplaceAll(f.Found, "\n", "; "))); err != nil {
			return err
		}
		if f.Fix != "" {
			if _, err := fmt.Fprintf(p.Stdout, "%-16s fix: %s\n", "", cleantext.Line(f.Fix)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *doctor) stepRunner() finding {
	file, err := d.program(runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return finding{"step-runner", statusProblem, err.Error(), "unpack the whole archive, or name it with `rung run --step-runner FILE`"}
	}
	return finding{Check: "step-runner", Status: statusOK, Found: file}
}

// disk says whether there is room for jobs: what the manager that runs here says, or else how the disk of the state folder is.
func (d *doctor) disk(ctx context.Context, c *config.Config) []finding {
	if c == nil || c.Disk == (config.Disk{}) {
		return nil
	}
	const fix = "free some space, or change [disk] of the configuration"
	if s, err := place.Ask(ctx, d.state); err == nil && s.Disk != nil {
		found := finding{Check: "disk", Status: statusOK, Found: diskLine(s.Disk)}
		switch {
		case s.Disk.Waiting != "":
			found.Status, found.Fix = statusProblem, fix
		case s.Disk.Trouble != "":
			found.Status = statusWarning
		}
		return []finding{found}
	}
	free, known := scarcity.Free(d.state)
	switch {
	case !known && c.Disk.KeepFree > 0 && isFolder(d.state):
		return []finding{{Check: "disk", Status: statusWarning, Found: "this system does not say how much is free: disk.keep_free has no effect"}}
	case !known:
		return nil // there is no state folder yet, which has a line of its own
	case free < c.Disk.KeepFree:
		return []finding{{"disk", statusWarning, fmt.Sprintf("%s free (%s), and %s are kept free: the manager will remove what it stored for later jobs", bytesize.Format(free), d.state, bytesize.Format(c.Disk.KeepFree)), fix}}
	}
	return []finding{{Check: "disk", Status: statusOK, Found: fmt.Sprintf("%s free (%s)", bytesize.Format(free), d.state)}}
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func (d *doctor) stateFolder() finding {
	at := d.state
	for { // what does not exist is made in the nearest folder that does
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) || filepath.Dir(at) == at {
			break
		}
		at = filepath.Dir(at)
	}
	if err := scarcity.TryWrite(at, store.Room); err != nil {
		fix := "give the folder to this user, or name another one with --state"
		if scarcity.DiskFull(err) {
			fix = "make room, or name another folder with --state"
		}
		return finding{"state", statusProblem, fmt.Sprintf("%s cannot be written: %v", d.state, err), fix}
	}
	return finding{Check: "state", Status: statusOK, Found: d.state + " can be written"}
}

// readConfig reads the configuration; nil if there is none that can be used.
func readConfig(path string) (*config.Config, []finding) {
	c, err := config.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, []finding{{"config", statusProblem, path + " does not exist: no job can run", place.Register(path)}}
	case err != nil:
		return nil, []finding{{"config", statusProblem, "the configuration has errors: " + firstLine(err.Error()), "rung config lint --config " + path}}
	}
	all := []finding{{Check: "config", Status: statusOK, Found: fmt.Sprintf("%s: %s, %s at once", path, quantity.Count(len(c.Runners), "runner"), quantity.Count(c.Concurrent, "job"))}}
	switch {
	case len(c.Runners) == 0:
		all[0] = finding{"config", statusProblem, path + " has no entries: no job can run", place.Register(path)}
	case c.Concurrent < 1:
		all[0] = finding{"config", statusProblem, fmt.Sprintf("%s: no job runs with concurrent = %d", path, c.Concurrent), "write how many jobs may run at once"}
	}
	all = append(all, warnings(path)...)
	for i := range c.Runners {
		if err := traces.CheckKey(c.Runners[i].Traces.Key); err != nil {
			all = append(all, finding{"config", statusProblem, fmt.Sprintf("%s: traces cannot be signed: %v", c.Runners[i].Name, err), "ssh-keygen -t ed25519 -N '' -f " + c.Runners[i].Traces.Key})
		}
	}
	return c, all
}

// warnings are those of `rung config lint`.
func warnings(path string) (all []finding) {
	report, err := config.Lint(path)
	if err != nil {
		return nil
	}
	for _, p := range report.Problems {
		if p.Warning && p.Rule != "config/refused" { // which entries say themselves
			all = append(all, finding{"config", statusWarning, p.Message, p.Hint})
		}
	}
	return all
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

func controlGroups() finding {
	switch {
	case runtime.GOOS != "linux":
		return finding{"cgroups", statusWarning, "only Linux has control groups", ""}
	case exists("/sys/fs/cgroup/cgroup.controllers"):
		text, _ := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
		return finding{Check: "cgroups", Status: statusOK, Found: "version 2, with the controllers " + strings.TrimSpace(string(text))}
	case exists("/sys/fs/cgroup/memory"):
		return finding{"cgroups", statusOK, "version 1", ""}
	}
	return finding{"cgroups", statusWarning, "none are mounted at /sys/fs/cgroup", "mount -t cgroup2 none /sys/fs/cgroup"}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

func kvm() finding {
	file, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	switch {
	case err == nil:
		_ = file.Close()
		return finding{Check: "kvm", Status: statusOK, Found: "/dev/kvm can be used"}
	case errors.Is(err, fs.ErrPermission):
		return finding{"kvm", statusWarning, "this user cannot open /dev/kvm; no level needs it yet", "usermod -aG kvm USER"}
	}
	return finding{"kvm", statusWarning, "/dev/kvm does not exist; no level needs it yet", ""}
}

func confinement() finding {
	if err := process.CanConfine(); err != nil {
		return finding{"confine", statusWarning, fmt.Sprintf("steps cannot be confined: %v", err), "run `step-runner doctor` for the reason"}
	}
	return finding{Check: "confine", Status: statusOK, Found: "steps can be confined: namespaces and Landlock work"}
}

// try opens a level, and says why it cannot be had, or is too weak for the entry. The engine or the API server that it needs has answered then.
func (d *doctor) try(ctx context.Context, r *config.Runner, level executor.Level, env ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, openTime, fmt.Errorf("it has not answered within %s", openTime))
	defer cancel()
	opened, err := d.open(ctx, r, level, executor.Setup{Program: d.program, State: d.temp, HostEnv: env})
	if err != nil {
		return err
	}
	if levels, wrong := r.Levels(); wrong == nil {
		err = levels.Admit(opened)
	}
	if prober, ok := opened.(executor.Prober); ok && err == nil && probed(r) {
		if err = prober.Probe(ctx, &executor.Job{User: r.User}); err != nil {
			err = &unfit{err}
		}
	}
	return errors.Join(err, opened.Close())
}

// unfit is the error of a level that opens, and could run no job. It says itself what is missing.
type unfit struct{ error }

func (u *unfit) Unwrap() error { return u.error }

// probed reports whether a level is asked, beyond that it opens: those of other entries ask when they open, or would copy a step-runner to another machine.
func probed(r *config.Runner) bool {
	return r.Executor == config.KubernetesExecutor || r.Executor == "custom" || r.Executor == "shell" && r.User != ""
}

// levels are those of this program, on this machine. One that no entry wants is not a problem.
func (d *doctor) levels(ctx context.Context) (all []finding) {
	for _, level := range levels.All {
		f := finding{Check: string(level.Level), Status: statusOK, Found: "jobs can run at this level of isolation"}
		shell := &config.Runner{Executor: "shell"}
		if err := d.try(ctx, shell, level.Level); err != nil {
			f = finding{string(level.Level), statusWarning, err.Error(), fix(shell, level.Level, err)}
		}
		all = append(all, f)
	}
	return all
}

// reachable asks GitLab whether it accepts the tokens.
func reachable(ctx context.Context, m *registration.Manager, c *config.Config) (all []finding) {
	for i := range c.Runners {
		r := &c.Runners[i]
		f := finding{Check: "gitlab", Status: statusOK, Found: fmt.Sprintf("%s (%s): %s accepts its token", r.Name, r.Short(), r.URL)}
		ctx, cancel := context.WithTimeout(ctx, verifyTime)
		switch verdict, err := m.Verify(ctx, r); {
		case verdict == registration.Removed:
			f = finding{"gitlab", statusProblem, fmt.Sprintf("%s (%s): %s refuses its token", r.Name, r.Short(), r.URL), "rung verify, then register the runner again"}
		case err != nil:
			f = finding{"gitlab", statusProblem, fmt.Sprintf("%s (%s): %v", r.Name, r.Short(), err), "check the address, the network, a proxy (HTTPS_PROXY) and, for certificates, tls-ca-file"}
		}
		cancel()
		all = append(all, f)
	}
	return all
}
