// Package custom is GitLab's custom executor: the place of a job is made by a driver, which is programs of the operator. Existing drivers
// work unchanged (gitlab-runner 19.3: docs/executors/custom.md, executors/custom).
//
//	config_exec     says where the job's folders are, in JSON
//	prepare_exec    makes the place
//	run_exec SCRIPT prepare_script           a script that says what the place is, and finds out how the driver runs scripts
//	run_exec SCRIPT build_script             the job: the script becomes a step-runner, and its input and output our connection
//	run_exec SCRIPT after_script             when the job is over
//	run_exec SCRIPT cleanup_file_variables
//	cleanup_exec    removes the place
//
// A driver knows no more of a place than how to run the text of a file there with a shell. From that a connection is made (live.go), at whose
// other end a step-runner serves the place as a machine (executor/host/sshd). The machine is a host.Host, and the job runs on it as it
// does on level none: this package makes places, and nothing that happens in them.
package custom

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/ledger"
	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/event"
)

// Level is the name of the level. It is not one of the ladder's: a driver does not say how well it isolates, and counts as none.
const Level executor.Level = "custom"

// attempts is how often a place is tried to be made, and attemptPause the time between (gitlab-runner: prepare_exec). Tests wait less.
const attempts = 3

var attemptPause = 3 * time.Second

// Options are the level's own.
type Options struct {
	Driver Driver
	// BuildsDir is the folder in the place below which jobs have theirs; config_exec may name another one. CacheDir is told to the driver.
	BuildsDir, CacheDir string
	// Shell is the shell of scripts: "bash", "sh" or empty.
	Shell string
	// As is the level that the driver is as strong as, as the operator says; empty is none.
	As executor.Level
	// Log gets what cleanup_exec prints; nil is nobody.
	Log *slog.Logger
}

// Executor makes environments with a driver.
type Executor struct {
	setup executor.Setup
	opts  Options
	host  string // this machine's name in handles
	life  context.Context
	end   context.CancelFunc

	opening sync.Mutex
	book    *ledger.Ledger
	closing sync.WaitGroup // environments that are being removed
}

// New opens the level with a driver. Nothing of it is called before there is a job.
func New(ctx context.Context, setup executor.Setup, o Options) (*Executor, error) {
	switch {
	case supported != nil:
		return nil, supported
	case setup.Host != nil && setup.Host.Name() != "local":
		return nil, fmt.Errorf("a driver of the custom executor runs on this machine only, not on %s", setup.Host.Name())
	case o.Driver.RunExec == "":
		return nil, errors.New("the custom executor has no driver: write run_exec in [runners.custom]")
	case o.Shell != "" && o.Shell != "bash" && o.Shell != "sh":
		return nil, fmt.Errorf("the custom executor cannot begin a job with the shell %q; use bash", o.Shell)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if setup.Program == nil {
		setup.Program = executor.ThisProgram
	}
	var err error
	if setup.State == "" {
		if setup.State, err = ledger.Folder(); err != nil {
			return nil, err
		}
	}
	if setup.Env == nil {
		setup.Env = os.Environ()
	}
	e := &Executor{setup: setup, opts: o, host: "local"}
	e.life, e.end = context.WithCancel(context.WithoutCancel(ctx))
	return e, nil
}

// Level returns Level.
func (*Executor) Level() executor.Level { return Level }

// Probe implements executor.Prober: the driver's programs are there.
func (e *Executor) Probe(context.Context, *executor.Job) error {
	d := &e.opts.Driver
	for _, of := range []struct{ key, program string }{{"config_exec", d.ConfigExec}, {"prepare_exec", d.PrepareExec}, {"run_exec", d.RunExec}, {"cleanup_exec", d.CleanupExec}} {
		if of.program == "" {
			continue
		}
		if _, err := exec.LookPath(of.program); err != nil {
			return fmt.Errorf("the driver's %s cannot be run: %w", of.key, err)
		}
	}
	return nil
}

// Rank is that of Options.As.
func (e *Executor) Rank() int { return e.opts.As.Rank() }

// Capabilities says that everything is the driver's business.
func (*Executor) Capabilities() executor.Capabilities { return executor.Capabilities{Driver: true} }

// begin opens the ledger, once.
func (e *Executor) begin() error {
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.book != nil {
		return nil
	}
	var err error
	e.book, err = ledger.Open(e.setup.State, string(Level), ledger.Lease{Owner: e.setup.Lease.Owner, Keep: e.setup.Lease.Keep})
	return err
}

// entry is what the ledger holds of a job: what its driver needs to remove the place when this process is gone. It holds no secrets, and so
// neither the job's answer nor what config_exec said.
type entry struct {
	Dir       string            `json:"dir"`
	Cleanup   []string          `json:"cleanup,omitempty"` // the program and its arguments
	Times     [3]time.Duration  `json:"times_ns"`          // of cleanup, and to end and to be killed
	Variables map[string]string `json:"variables,omitempty"`
}

func (e *Executor) entry(dir string, variables map[string]string) string {
	d := e.opts.Driver
	it := entry{Dir: dir, Times: [3]time.Duration{d.CleanupTimeout, d.GracefulKill, d.ForceKill}, Variables: variables}
	if d.CleanupExec != "" {
		it.Cleanup = append([]string{d.CleanupExec}, d.CleanupArgs...)
	}
	text, _ := json.Marshal(it) // texts and numbers cannot fail
	return string(text)
}

// removeLeft removes the place of a job whose process has ended.
func (e *Executor) removeLeft(ctx context.Context, text string) error {
	var it entry
	if err := json.Unmarshal([]byte(text), &it); err != nil || it.Dir == "" {
		return nil // not written by this level
	}
	f := &folder{dir: it.Dir, base: e.setup.Env, custom: it.Variables}
	f.driver.CleanupTimeout, f.driver.GracefulKill, f.driver.ForceKill = it.Times[0], it.Times[1], it.Times[2]
	if len(it.Cleanup) > 0 {
		f.driver.CleanupExec, f.driver.CleanupArgs = it.Cleanup[0], it.Cleanup[1:]
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil { // drivers work in it
		return err
	}
	e.cleanup(ctx, f, mask.NewSet())
	return os.RemoveAll(f.dir)
}

// cleanup calls cleanup_exec. That it fails changes nothing, and is logged.
func (e *Executor) cleanup(ctx context.Context, f *folder, secrets *mask.Set) {
	if f.driver.CleanupExec == "" {
		return
	}
	log := e.opts.Log.With("exec", "cleanup_exec")
	out := newOutput(secrets, func(line string) { log.Debug(line) })
	errs := newOutput(secrets, func(line string) { log.Warn(line) })
	err := f.run(ctx, call{
		exec: "cleanup_exec", program: f.driver.CleanupExec, args: f.driver.CleanupArgs, timeout: cmp.Or(f.driver.CleanupTimeout, defaultExecTimeout), stdout: out, stderr: errs,
	})
	out.flush()
	errs.flush()
	if err != nil {
		log.Warn("the place of a job may not be removed", "error", secrets.String(err.Error()))
	}
}

// Recover does not find a job again: the driver ended with the process that called it. What is left of its place is removed.
func (e *Executor) Recover(ctx context.Context, handle executor.Handle) (executor.Environment, error) {
	var text string
	if handle.Level != Level || handle.Host != e.host || json.Unmarshal(handle.State, &text) != nil {
		return nil, fmt.Errorf("the environment %s is not one of level %s on this machine", handle.ID, Level)
	}
	if err := e.begin(); err != nil {
		return nil, err
	}
	if err := e.book.Recover(handle.ID, text); err != nil {
		return nil, err
	}
	gone := &executor.Gone{Reason: "its driver ended with the process that called it"}
	e.closing.Go(func() {
		if err := e.removeLeft(context.WithoutCancel(ctx), text); err != nil {
			e.opts.Log.Warn("the folder of a job is not removed", "error", err)
			return
		}
		_ = e.book.Done(text)
	})
	return nil, gone
}

// Sweep calls cleanup_exec for jobs whose process has ended and will not be followed by another one.
func (e *Executor) Sweep(ctx context.Context) error {
	return ledger.Sweep(e.setup.State, string(Level), func(text string) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return e.removeLeft(ctx, text)
	})
}

// Close waits for the places that are being removed.
func (e *Executor) Close() error {
	e.closing.Wait()
	e.end()
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.book == nil {
		return nil
	}
	return e.book.Close()
}

// Prepare has the driver make a place, and starts a step-runner in it. A driver that fails is tried again, unless it blames the job.
func (e *Executor) Prepare(ctx context.Context, job *executor.Job, report executor.Reporter) (executor.Environment, error) {
	if err := errors.Join(job.Validate(), context.Cause(ctx)); err != nil {
		return nil, err
	}
	if err := executor.Check(e, job); err != nil {
		return nil, err
	}
	if err := e.begin(); err != nil {
		return nil, err
	}
	report.Report(event.Preparing{Phase: event.PhaseStarting})
	for try := 1; ; try++ {
		v, err := e.prepareOnce(ctx, job, report)
		if err == nil {
			report.Report(event.Preparing{Phase: event.PhaseStarting, Done: true})
			return v, nil
		}
		var failure *Failure
		switch {
		case ctx.Err() != nil:
			return nil, err
		case !errors.As(err, &failure) || try == attempts:
			return nil, err
		case failure.OfJob: // the end of the log may have no more than the exit code
			report.Say(event.PhaseStarting, "", failure.Error())
			return nil, &executor.UserError{Message: failure.Error(), Err: err}
		}
		report.Say(event.PhaseStarting, "", fmt.Sprintf("%v; it is tried again in %s", err, attemptPause))
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(attemptPause):
		}
	}
}

// prepareOnce makes an environment, or leaves nothing.
func (e *Executor) prepareOnce(ctx context.Context, job *executor.Job, report executor.Reporter) (*environment, error) {
	dir, err := e.newFolder()
	if err != nil {
		return nil, err
	}
	v := newEnvironment(e, job, dir, report)
	if err := e.book.Add(v.entry); err != nil {
		return nil, err
	}
	if err := v.prepare(ctx, job); err != nil {
		v.Finish(&executor.Gone{Reason: "it was not made", Err: err})
		if v.live != nil && ctx.Err() != nil { // who cancels a job does not wait for it
			_ = v.live.wait(ctx)
		}
		e.closing.Add(1)
		return nil, errors.Join(err, v.remove())
	}
	return v, nil
}

// newFolder names a folder for a job.
func (e *Executor) newFolder() (string, error) {
	base := e.setup.Temp
	if base == "" {
		base = os.TempDir()
	}
	base, err := filepath.Abs(base)
	return filepath.Join(base, "custom-executor"+random()[:8]), err // short: sockets are below it
}

// maxShown bounds how much of it an error shows, in bytes.
const maxShown = 500

// config is what config_exec prints.
type config struct {
	Driver *struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"driver"`
	Hostname          string            `json:"hostname"`
	BuildsDir         string            `json:"builds_dir"`
	CacheDir          string            `json:"cache_dir"`
	BuildsDirIsShared bool              `json:"builds_dir_is_shared"`
	JobEnv            map[string]string `json:"job_env"`
	Shell             string            `json:"shell"`
}

// configure calls config_exec.
func (f *folder) configure(ctx context.Context, errs io.Writer) (*config, error) {
	out := &config{}
	if f.driver.ConfigExec == "" {
		return out, nil
	}
	said := &limited{most: maxConfig}
	err := f.run(ctx, call{
		exec: "config_exec", program: f.driver.ConfigExec, args: f.driver.ConfigArgs, timeout: cmp.Or(f.driver.ConfigTimeout, defaultExecTimeout), stdout: said, stderr: errs,
	})
	if err != nil {
		return nil, err
	}
	if said.over {
		return nil, &Failure{Exec: "config_exec", Reason: fmt.Sprintf("has printed more than %d bytes", maxConfig)}
	}
	if len(said.text) == 0 {
		return out, nil
	}
	if err := json.Unmarshal(said.text, out); err != nil {
		shown := string(said.text)
		if len(shown) > maxShown {
			shown = strings.ToValidUTF8(shown[:maxShown], "") + "…"
		}
		return nil, &Failure{Exec: "config_exec", Reason: fmt.Sprintf("has printed %q, which is not its configuration in JSON: %v", shown, err), Err: err}
	}
	return out, nil
}
