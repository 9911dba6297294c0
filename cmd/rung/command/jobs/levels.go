package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/custom"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/ssh"
	"github.com/rungci/rung/executor/levels"
	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/containers"
)

// programs finds step-runners for the places that jobs run in.
type programs struct {
	file string // for this system; empty is the one beside this program
}

// find is an executor.Setup.Program. A step-runner for another system is beside this program, as step-runner-SYSTEM-ARCHITECTURE.
func (p *programs) find(system, arch string) (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	if own, err = filepath.EvalSymlinks(own); err != nil {
		return "", err
	}
	names := []string{filepath.Join(filepath.Dir(own), "step-runner-"+system+"-"+arch)}
	if system == runtime.GOOS && arch == runtime.GOARCH {
		names = append([]string{filepath.Join(filepath.Dir(own), "step-runner")}, names...)
		if p.file != "" {
			names = []string{p.file}
		}
	}
	for _, name := range names {
		if system == "windows" && filepath.Ext(name) == "" {
			name += ".exe"
		}
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			return filepath.Abs(name)
		}
	}
	return "", fmt.Errorf("there is no step-runner for %s/%s: %s does not exist; it comes with rung, in the same folder", system, arch, strings.Join(names, " or "))
}

// open opens an isolation level for an entry of the configuration.
func open(p *command.Program) func(ctx context.Context, r *config.Runner, level executor.Level, setup executor.Setup) (executor.Executor, error) {
	return func(ctx context.Context, r *config.Runner, level executor.Level, setup executor.Setup) (executor.Executor, error) {
		setup.Env = p.Env
		if r.Executor == "ssh" {
			on, err := overSSH(ctx, r.SSH, setup)
			if err != nil {
				return nil, err
			}
			setup.Host = on
		}
		if r.Executor == "custom" && (level == executor.None || level == custom.Level) {
			return withDriver(ctx, r, setup)
		}
		if r.Executor == config.PluginExecutor && !level.Known() {
			return withPlugin(ctx, p, r, setup)
		}
		switch level {
		case executor.Container, executor.Sandbox:
			return containers.Open(ctx, r, level, setup)
		default:
			definition, known := levels.Find(level)
			if !known {
				return nil, fmt.Errorf("this program has no isolation level %q; it has %s", level, strings.Join(levels.Names(), ", "))
			}
			return definition.Open(ctx, setup)
		}
	}
}

// withDriver opens level custom with the driver of an entry.
func withDriver(ctx context.Context, r *config.Runner, setup executor.Setup) (executor.Executor, error) {
	o := custom.Options{BuildsDir: r.BuildsDir, CacheDir: r.CacheDir, Shell: r.Shell, Log: slog.Default().With("runner", r.Name)}
	if c := r.Custom; c != nil {
		o.Driver = custom.Driver{
			ConfigExec: c.ConfigExec, ConfigArgs: c.ConfigArgs, PrepareExec: c.PrepareExec, PrepareArgs: c.PrepareArgs, RunExec: c.RunExec, RunArgs: c.RunArgs,
			CleanupExec: c.CleanupExec, CleanupArgs: c.CleanupArgs, ConfigTimeout: c.ConfigExecTimeout, PrepareTimeout: c.PrepareExecTimeout,
			CleanupTimeout: c.CleanupExecTimeout, GracefulKill: c.GracefulKillTimeout, ForceKill: c.ForceKillTimeout,
		}
	}
	return custom.New(ctx, setup, o)
}

// withPlugin opens the plugin of an entry.
func withPlugin(ctx context.Context, p *command.Program, r *config.Runner, setup executor.Setup) (executor.Executor, error) {
	if r.Plugin == nil {
		return nil, fmt.Errorf("the entry has no [runners.plugin]")
	}
	options, err := plugin.Options(r.Plugin.Options)
	if err != nil {
		return nil, fmt.Errorf("[runners.plugin.options] cannot be JSON, which plugins read: %w", err)
	}
	opened, err := plugin.Open(ctx, plugin.Config{
		Name: r.Plugin.Name, File: r.Plugin.File, Folder: r.Plugin.Folder, SHA256: r.Plugin.SHA256, Args: r.Plugin.Args, Env: p.Variables(r.Plugin.Environment), Options: options,
		Log: slog.Default().With("runner", r.Name),
	}, setup)
	if err != nil {
		return nil, err
	}
	if level := opened.Level(); level.Known() { // its jobs would be adopted by the other level
		return nil, errors.Join(fmt.Errorf("the executor plugin %q calls its level %q, which is one of Rung's own: a plugin has a level of its own, and says which is as strong by its rank", r.Plugin.Name, level), opened.Close())
	}
	return opened, nil
}

// overSSH connects to the host of an entry. A host whose key is not known is refused, unless the entry says that any key will do: nobody has
// compared it, and a runner gives the host what its jobs are trusted with.
func overSSH(ctx context.Context, s *config.SSH, setup executor.Setup) (host.Host, error) {
	if s == nil || s.Host == "" {
		return nil, fmt.Errorf("the entry has no [runners.ssh] with a host")
	}
	address := net.JoinHostPort(s.Host, s.Port)
	if s.User != "" {
		address = s.User + "@" + address
	}
	o := ssh.Options{
		Address: address, Key: s.IdentityFile, Password: s.Password,
		AnyHostKey: s.DisableStrictHostKeyChecking != nil && *s.DisableStrictHostKeyChecking,
		Program:    func(platform host.Platform) (string, error) { return setup.Program(platform.OS, platform.Arch) },
	}
	if s.KnownHostsFile != "" {
		o.KnownHosts = []string{s.KnownHostsFile}
	}
	return ssh.New(ctx, o)
}
