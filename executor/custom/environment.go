package custom

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/custom/frames"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/ssh"
	"github.com/rungci/rung/executor/none"
	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/event"
)

const (
	// leaveTime is how long the job's script may take to end when the connection to it is closed, before it is terminated.
	leaveTime = 15 * time.Second
	// explainTime is how long the end of run_exec is waited for when a place is lost, because it says why.
	explainTime = 2 * time.Second
	// beginTime bounds how long the script of a job may say nothing while it begins, and answerTime how long the step-runner that it becomes.
	beginTime  = 10 * time.Minute
	answerTime = 30 * time.Second
	// lostAfter is how long a place may not answer.
	lostAfter = 12 * time.Second
	// innerTime bounds what is done in a place to end a job there.
	innerTime = 30 * time.Second
)

// random is part of a name that nobody else has, in small letters.
func random() string { return strings.ToLower(rand.Text()[:13]) }

// environment is the place of one job.
type environment struct {
	executor *Executor
	folder   *folder
	entry    string // in the ledger
	secrets  *mask.Set
	out      *output

	*executor.Life
	live    *live
	machine *ssh.Host
	level   *none.Executor
	inner   executor.Environment

	closing sync.Once
	closed  chan struct{} // closed when nothing is left
	problem error         // of that, then
}

func newEnvironment(e *Executor, job *executor.Job, dir string, report executor.Reporter) *environment {
	v := &environment{
		executor: e, secrets: mask.NewSet(job.Masked...), Life: executor.NewLife(), closed: make(chan struct{}),
		folder: &folder{dir: dir, driver: e.opts.Driver, base: e.setup.Env, custom: maps.Clone(job.Variables)},
	}
	if v.folder.custom == nil {
		v.folder.custom = map[string]string{}
	}
	v.folders(job, e.opts.BuildsDir, e.opts.CacheDir)
	public := maps.Clone(job.Variables)
	if public == nil {
		public = map[string]string{}
	}
	for _, name := range []string{"CI_BUILDS_DIR", "CI_PROJECT_DIR", "CI_CACHE_DIR"} {
		if value, told := v.folder.custom[name]; told {
			public[name] = value
		}
	}
	v.entry = e.entry(dir, public)
	v.out = newOutput(v.secrets, func(line string) { report.Say(event.PhaseStarting, "", line) })
	return v
}

// folders tells the driver where the job's folders are, and its variables, which may name them. CI_BUILDS_DIR is the folder that the driver names; the
// job has the one of its own in it.
func (v *environment) folders(job *executor.Job, builds, cache string) {
	if job.Driver != nil {
		v.folder.custom = job.Driver.Variables(builds)
	}
	if builds != "" {
		v.folder.custom["CI_BUILDS_DIR"], v.folder.custom["CI_PROJECT_DIR"] = builds, path.Join(builds, job.ID, job.ProjectName)
	}
	if cache != "" {
		v.folder.custom["CI_CACHE_DIR"] = cache
	}
}

// prepare has the driver make the place, and starts a step-runner in it.
func (v *environment) prepare(ctx context.Context, job *executor.Job) error {
	f := v.folder
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		return err
	}
	response := []byte("{}")
	if job.Driver != nil && job.Driver.Response != nil {
		response = job.Driver.Response
	}
	if err := os.WriteFile(f.responseFile(), response, 0o600); err != nil {
		return err
	}
	defer v.out.flush()
	c, err := f.configure(ctx, v.out)
	if err != nil {
		return err
	}
	builds := cmp.Or(c.BuildsDir, v.executor.opts.BuildsDir)
	if builds == "" || !path.IsAbs(builds) {
		return fmt.Errorf("the custom executor needs the absolute path of a folder for builds, and has %q: write builds_dir in [[runners]], or have config_exec print it", builds)
	}
	if c.Shell != "" && c.Shell != "bash" && c.Shell != "sh" {
		return fmt.Errorf("config_exec names the shell %q, with which the custom executor cannot begin a job; use bash", c.Shell)
	}
	v.folders(job, builds, cmp.Or(c.CacheDir, v.executor.opts.CacheDir))
	f.jobEnv = c.JobEnv
	v.introduce(c)
	if f.driver.PrepareExec != "" {
		err := f.run(ctx, call{
			exec: "prepare_exec", program: f.driver.PrepareExec, args: f.driver.PrepareArgs, timeout: cmp.Or(f.driver.PrepareTimeout, defaultExecTimeout), stdout: v.out, stderr: v.out,
		})
		if err != nil {
			return err
		}
	}
	return v.enter(ctx, job, builds)
}

// introduce says what makes the place.
func (v *environment) introduce(c *config) {
	text := "Using custom executor..."
	if c.Driver != nil && c.Driver.Name != "" {
		text = "Using custom executor with driver " + strings.TrimSpace(c.Driver.Name+" "+c.Driver.Version) + "..."
	}
	_, _ = io.WriteString(v.out, text+"\n")
}

// enter starts a step-runner in the place that stands.
func (v *environment) enter(ctx context.Context, job *executor.Job, builds string) error {
	there, err := v.folder.probe(ctx, v.out)
	if err != nil {
		return err
	}
	platform, err := ssh.ParsePlatform(there.system + " " + there.machine)
	if err != nil {
		return fmt.Errorf("the place that the driver made is of an unknown kind: %w", err)
	}
	if !there.live {
		return fmt.Errorf("the driver's run_exec cannot be used: %w; pass the file on as it comes: `… /bin/bash <\"$1\"`", errCopies)
	}
	program, err := v.executor.setup.Program(platform.OS, platform.Arch)
	if err != nil {
		return fmt.Errorf("finding a step-runner for the place that the driver made: %w", err)
	}
	present, err := v.begin(ctx, program)
	if err != nil {
		return err
	}
	if err := v.take(ctx, program, present); err != nil {
		return err
	}
	setup := v.executor.setup
	setup.Host, setup.State, setup.Temp, setup.Lease, setup.Env = v.machine, filepath.Join(v.folder.dir, "state"), "", executor.Lease{}, nil
	if v.level, err = none.New(ctx, setup, none.Options{}); err != nil {
		return err
	}
	asked := &executor.Job{ID: job.ID, ProjectName: job.ProjectName, Root: builds, Keep: job.Keep, Variables: job.Variables, Masked: job.Masked}
	if v.inner, err = v.level.Prepare(ctx, asked, nil); err != nil {
		return v.explain(err)
	}
	go v.watch()
	return nil
}

// begin runs the stage build_script, whose script becomes a step-runner. It returns the path of that in the place.
func (v *environment) begin(ctx context.Context, program string) (present string, err error) {
	file, err := os.Open(program)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", program, err)
	}
	mark := frames.NewMark()
	text := script(beginScript, mark, "KEEP", quoted(ssh.PutScript()), "NAME", quoted(strings.TrimSuffix(filepath.Base(program), ".exe")),
		"SUM", hex.EncodeToString(sum.Sum(nil)), "SIZE", strconv.FormatInt(size, 10))
	if v.live, err = v.folder.open(ctx, "build_script", mark, text, v.out); err != nil {
		if v.live != nil && v.live.process != nil && errors.Is(err, errUnread) {
			return "", cmp.Or(v.live.wait(ctx), error(&Failure{Exec: v.live.call.exec, Reason: "has ended without reading the script"}))
		}
		return "", err
	}
	for {
		waiting, cancel := context.WithTimeoutCause(ctx, beginTime, &Failure{Exec: v.live.call.exec, Reason: fmt.Sprintf("has run nothing of its script for %s", beginTime)})
		word, err := v.live.word(waiting)
		cancel()
		switch {
		case err != nil:
			return "", err
		case strings.HasPrefix(word, "ready "):
			return strings.TrimPrefix(word, "ready "), nil
		case word == "send":
			if err := v.live.send(ctx, file); err != nil {
				return "", v.explain(fmt.Errorf("sending the step-runner to the place: %w", err))
			}
		}
	}
}

// quoted is a text within the single quotes of a shell.
func quoted(text string) string { return strings.ReplaceAll(text, "'", `'\''`) }

// take makes a host of the connection.
func (v *environment) take(ctx context.Context, program, present string) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("the step-runner in the place that the driver made does not answer within %s", answerTime))
	defer cancel()
	var once sync.Once
	v.machine, err = ssh.New(ctx, ssh.Options{
		LostAfter: lostAfter,
		Name:      "custom://" + filepath.Base(v.folder.dir),
		Program:   func(host.Platform) (string, error) { return program, nil }, Present: present,
		Connect: func(context.Context) (conn net.Conn, err error) {
			err = errors.New("the driver's run_exec has ended")
			once.Do(func() { conn, err = v.live.conn, nil })
			return conn, err
		},
	})
	return v.explain(err)
}

// explain adds to an error of a place that run_exec has ended, if it has.
func (v *environment) explain(err error) error {
	if err == nil || v.live == nil {
		return err
	}
	select {
	case <-v.live.ended:
		return errors.Join(cmp.Or(v.live.result(), error(&Failure{Exec: v.live.call.exec, Reason: "has ended before the job"})), err)
	case <-time.After(explainTime):
		return err
	}
}

// watch ends the environment when its place is lost.
func (v *environment) watch() {
	select {
	case <-v.Done():
		return
	case <-v.live.ended:
	case <-v.inner.Done():
	}
	gone := v.explain(v.inner.Err())
	var failure *Failure
	switch {
	case errors.As(gone, &failure):
		if failure.OfJob { // the end of the log may have no more than the exit code
			_, _ = io.WriteString(v.out, failure.Error()+"\n")
		}
		v.Finish(&executor.Gone{Reason: failure.Error(), Err: gone})
	case gone == nil: // run_exec has ended, and the place has not noticed
		err := v.live.result()
		if err == nil {
			err = &Failure{Exec: v.live.call.exec, Reason: "has ended before the job"}
		}
		v.Finish(&executor.Gone{Reason: err.Error(), Err: err})
	default:
		v.Finish(gone)
	}
}

// in returns an error of the place, or why there is none any more.
func (v *environment) in(err error) error {
	if err != nil && v.Err() != nil {
		return v.Err()
	}
	return err
}

// Layout is that of the job in its place.
func (v *environment) Layout() executor.Layout {
	l := v.inner.Layout()
	l.Shared = false
	return l
}

// Handle finds what is to be removed.
func (v *environment) Handle() executor.Handle {
	state, _ := json.Marshal(v.entry) // a text cannot fail
	return executor.Handle{Level: Level, Host: v.executor.host, ID: filepath.Base(v.folder.dir), State: state}
}

// Check connects to the step-runner.
func (v *environment) Check(ctx context.Context) error {
	if err := v.Err(); err != nil {
		return err
	}
	return v.in(v.inner.Check(ctx))
}

// Connect opens a stream to the step-runner.
func (v *environment) Connect(ctx context.Context) (net.Conn, error) {
	if err := v.Err(); err != nil {
		return nil, err
	}
	conn, err := v.inner.Connect(ctx)
	return conn, v.in(err)
}

// Send unpacks an archive in the place.
func (v *environment) Send(ctx context.Context, dir string, archive io.Reader) error {
	ctx, end := v.Within(ctx)
	defer end()
	return v.in(v.inner.Send(ctx, dir, archive))
}

// Fetch packs files of the place.
func (v *environment) Fetch(ctx context.Context, path string, archive io.Writer) error {
	ctx, end := v.Within(ctx)
	defer end()
	return v.in(v.inner.Fetch(ctx, path, archive))
}

// Shell runs a command for a person.
func (v *environment) Shell(ctx context.Context, shell *executor.Shell) (int, error) {
	ctx, end := v.Within(ctx)
	defer end()
	code, err := v.inner.Shell(ctx, shell)
	return code, v.in(err)
}

// Detach is refused: a driver ends with the process that called it.
func (v *environment) Detach() error {
	return fmt.Errorf("the environment ends with this process: level %s has drivers, which end with it", Level)
}

// Close ends the job and has the driver remove its place. What takes longer than ctx goes on, and is waited for by Executor.Close.
func (v *environment) Close(ctx context.Context) error {
	v.Finish(&executor.Gone{Err: executor.ErrClosed})
	v.closing.Do(func() {
		v.executor.closing.Add(1)
		go func() { _ = v.remove() }()
	})
	select {
	case <-v.closed:
		return v.problem
	case <-ctx.Done():
		return fmt.Errorf("the driver still removes the place of the job: %w", context.Cause(ctx))
	}
}

// remove ends what runs and removes the place. The caller has added it to executor.closing.
func (v *environment) remove() error {
	defer v.executor.closing.Done()
	defer close(v.closed)
	ctx := v.executor.life
	v.leave(ctx)
	v.executor.cleanup(ctx, v.folder, v.secrets)
	if v.problem = os.RemoveAll(v.folder.dir); v.problem == nil {
		v.problem = v.executor.book.Done(v.entry)
	}
	return v.problem
}

// leave ends the job, and the stages after it.
func (v *environment) leave(ctx context.Context) {
	inner, cancel := context.WithTimeout(ctx, innerTime)
	defer cancel()
	log := v.executor.opts.Log
	if v.inner != nil {
		if err := v.inner.Close(inner); err != nil {
			log.Debug("ending a job in its place", "error", err)
		}
	}
	if v.level != nil {
		_ = v.level.Close()
	}
	if v.machine != nil {
		_ = v.machine.Close()
	}
	if v.live == nil {
		return
	}
	_ = v.live.conn.Close()
	select {
	case <-v.live.ended:
	case <-time.After(leaveTime):
		v.live.terminate()
	}
	for _, stage := range []string{"after_script", "cleanup_file_variables"} {
		if err := v.folder.runFile(ctx, stage, lastScript, v.out, v.out); err != nil {
			log.Warn("a stage after a job has failed", "error", v.secrets.String(err.Error()))
			return
		}
	}
}

// lastScript is that of stages whose work the step-runner has done.
const lastScript = "#!/usr/bin/env bash\nexit 0\n"
