package custom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/textbusy"
)

// Driver are the programs of a driver and how they are called, as [runners.custom] has them. Times of 0 are the defaults.
type Driver struct {
	ConfigExec  string
	ConfigArgs  []string
	PrepareExec string
	PrepareArgs []string
	RunExec     string // required
	RunArgs     []string
	CleanupExec string
	CleanupArgs []string

	ConfigTimeout, PrepareTimeout, CleanupTimeout time.Duration
	// GracefulKill is how long a program may take to end after SIGTERM, and ForceKill after SIGKILL, before it is left alone.
	GracefulKill, ForceKill time.Duration
}

// The defaults of times (gitlab-runner 19.3, executors/custom/config.go and helpers/process).
const (
	defaultExecTimeout  = time.Hour
	defaultGracefulKill = 10 * time.Minute
	defaultForceKill    = 10 * time.Second
)

// The exit codes by which a driver says whose fault a failure is. Drivers read them from their environment.
const (
	codeBuildFailure  = 1
	codeSystemFailure = 2
)

const (
	// maxConfig bounds what config_exec prints, in bytes.
	maxConfig = 1 << 20
	// maxExitCodeFile bounds what is read of BUILD_EXIT_CODE_FILE, in bytes.
	maxExitCodeFile = 64
	// stragglerTime is how long after the end of a program its output may be held open by what it started.
	stragglerTime = 2 * time.Second
)

// Failure is a program of a driver that failed.
type Failure struct {
	Exec string // "prepare_exec", or "run_exec (build_script)"
	// OfJob says that the driver blames the job.
	OfJob  bool
	Reason string
	Err    error // may be nil
}

func (e *Failure) Error() string { return e.Exec + " of the driver " + e.Reason }

// Unwrap returns the error below.
func (e *Failure) Unwrap() error { return e.Err }

// call is one call of a program.
type call struct {
	exec           string // for messages
	program        string
	args           []string
	timeout        time.Duration // 0 is none
	stdout, stderr io.Writer
}

// folder is that of a job on this machine, and what its driver is told.
type folder struct {
	dir    string
	driver Driver
	base   []string          // the environment of this program
	jobEnv map[string]string // from config_exec
	custom map[string]string // variables of the job
}

func (f *folder) exitCodeFile() string { return f.dir + "/build_exit_code" }
func (f *folder) responseFile() string { return f.dir + "/response.json" }

// environ is the environment of every program of the driver, in the order of the reference: what comes later wins.
func (f *folder) environ() []string {
	env := append([]string(nil), f.base...)
	for name, value := range f.jobEnv {
		env = append(env, name+"="+value)
	}
	env = append(env,
		"TMPDIR="+f.dir, "BUILD_FAILURE_EXIT_CODE="+strconv.Itoa(codeBuildFailure), "SYSTEM_FAILURE_EXIT_CODE="+strconv.Itoa(codeSystemFailure),
		"BUILD_EXIT_CODE_FILE="+f.exitCodeFile(), "JOB_RESPONSE_FILE="+f.responseFile(),
	)
	for name, value := range f.custom {
		env = append(env, "CUSTOM_ENV_"+name+"="+value)
	}
	return env
}

// process is a program of a driver that runs.
type process struct {
	folder *folder
	call   call
	cmd    *exec.Cmd
	ended  chan struct{}
	err    error // of Wait, then
}

// start starts a program in a process group of its own.
func (f *folder) start(c call) (*process, error) {
	_ = os.Remove(f.exitCodeFile()) // of an earlier call
	var cmd *exec.Cmd
	err := textbusy.Retry(func() error {
		cmd = exec.Command(c.program, c.args...)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = f.dir, f.environ(), c.stdout, c.stderr, stragglerTime
		ownGroup(cmd)
		return cmd.Start()
	})
	if err != nil {
		return nil, &Failure{Exec: c.exec, Reason: fmt.Sprintf("cannot be started: %v; check it in [runners.custom]", err), Err: err}
	}
	p := &process{folder: f, call: c, cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		if p.err = cmd.Wait(); errors.Is(p.err, exec.ErrWaitDelay) {
			p.err = nil // what it has started holds its output, and may
		}
	}()
	return p, nil
}

// wait waits for the end. When ctx ends, or the time of the call, the program is terminated.
func (p *process) wait(ctx context.Context) error {
	if p.call.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.call.timeout, &Failure{
			Exec: p.call.exec, Reason: fmt.Sprintf("has not ended within %s; raise its timeout in [runners.custom] if it needs longer", p.call.timeout),
		})
		defer cancel()
	}
	select {
	case <-p.ended:
		return p.result()
	case <-ctx.Done():
	}
	if !p.terminate() {
		return &Failure{Exec: p.call.exec, Reason: fmt.Sprintf("does not end, not even when it is killed: its process %d is left alone", p.cmd.Process.Pid), Err: context.Cause(ctx)}
	}
	return context.Cause(ctx)
}

// terminate tells the program and all in its group to end, and then makes them. It returns false when that does not help.
func (p *process) terminate() bool {
	for _, step := range []struct {
		signal func(*exec.Cmd)
		wait   time.Duration
	}{{terminateGroup, cmp.Or(p.folder.driver.GracefulKill, defaultGracefulKill)}, {killGroup, cmp.Or(p.folder.driver.ForceKill, defaultForceKill)}} {
		step.signal(p.cmd)
		late := time.NewTimer(step.wait)
		select {
		case <-p.ended:
			late.Stop()
			return true
		case <-late.C:
		}
	}
	return false
}

// result is what the end of the program says.
func (p *process) result() error {
	if p.err == nil {
		return nil
	}
	out := &Failure{Exec: p.call.exec, Err: p.err}
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) {
		out.Reason = "failed: " + p.err.Error()
		return out
	}
	switch code := exit.ExitCode(); code {
	case codeBuildFailure:
		return p.blamed(out)
	case codeSystemFailure:
		out.Reason = fmt.Sprintf("failed, and says that the job is not the reason (exit code %d, SYSTEM_FAILURE_EXIT_CODE)", code)
	case -1:
		out.Reason = "was ended: " + exit.String()
	default:
		out.Reason = fmt.Sprintf("ended with the unknown exit code %d: drivers end with $BUILD_FAILURE_EXIT_CODE or $SYSTEM_FAILURE_EXIT_CODE", code)
	}
	return out
}

// blamed completes the failure of a program that says that the job is the reason.
func (p *process) blamed(out *Failure) error {
	out.OfJob = true
	out.Reason = "says that the job has failed (BUILD_FAILURE_EXIT_CODE)"
	out.Err = &executor.JobFailure{Message: out.Error()}
	file, err := os.Open(p.folder.exitCodeFile())
	if err != nil {
		return out
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxExitCodeFile))
	line, _, _ := strings.Cut(string(text), "\n")
	code, wrong := strconv.Atoi(strings.TrimSuffix(line, "\r"))
	if err = errors.Join(err, wrong); err != nil {
		return &Failure{Exec: p.call.exec, Reason: fmt.Sprintf("has written %q to BUILD_EXIT_CODE_FILE, whose first line must be a number", line), Err: err}
	}
	out.Reason = fmt.Sprintf("says that the job has failed with exit code %d", code)
	out.Err = &executor.JobFailure{Message: out.Error(), Code: &code}
	return out
}

// run runs a program to its end.
func (f *folder) run(ctx context.Context, c call) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p, err := f.start(c)
	if err != nil {
		return err
	}
	return p.wait(ctx)
}

// limited keeps the beginning of what is written.
type limited struct {
	text []byte
	most int
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	room := l.most - len(l.text)
	l.over = l.over || room < len(p)
	l.text = append(l.text, p[:min(room, len(p))]...)
	return len(p), nil
}
