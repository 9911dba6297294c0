//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/fake"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
	"github.com/rungci/rung/steps/event"
)

// managerFigures are of `rung run` with a GitLab on loopback. gitlab-runner 19.4 had 4 jobs a second, 114 ms and 63 MB on a machine like CI's.
var managerFigures = []figure{
	{name: "runner: jobs of `true`, a second", unit: "/s", target: 60, more: true, measure: managerJobs(func(m *managed) float64 { return m.rate })},
	{name: "runner: job of `true`, hand-out to end, p50", unit: "ms", target: 25, measure: managerJobs(func(m *managed) float64 { return m.took })},
	{name: "runner: its memory", unit: "MB", target: 40, measure: managerJobs(func(m *managed) float64 { return m.memory })},
	{name: "runner: memory of 1,000 quiet jobs", unit: "MB", target: 300, measure: managerQuiet},
	{name: "runner: processor time of a job of `true`", unit: "ms", target: 54, measure: managerJobs(func(m *managed) float64 { return m.cpu })},
	{name: "runner: executions a job", unit: "", target: 3, measure: managerExecutions},
	{name: "runner: log to GitLab", unit: "MB/s", target: 100, more: true, measure: managerLog(func(m *managed, gb float64) float64 { return gb * 1e3 / m.second })},
	{name: "runner: processor time of 1 GB of log", unit: "s", target: 20, measure: managerLog(func(m *managed, gb float64) float64 { return m.cpu / 1e3 / gb })},
	{name: "runner: memory of 2 GB of log, to 16 MB", unit: "x", target: 1.1, measure: managerLogMemory},
}

const (
	managerCount    = 200
	managerParallel = 4
)

// managed is what a manager needed for its jobs.
type managed struct {
	rate       float64 // jobs a second
	took       float64 // ms from the hand-out to the final state, the median
	memory     float64 // MB at most
	second     float64 // the whole time in seconds
	cpu        float64 // ms of processor time of the manager and of all that it ran, a job
	executions float64 // programs that were started, a job; 0 where they were not counted
}

// managerOnce runs the 200 jobs for all figures of them.
var managerOnce struct {
	sync.Once
	got *managed
	err error
}

func managerJobs(of func(*managed) float64) func(*world) (float64, string, error) {
	return func(w *world) (float64, string, error) {
		managerOnce.Do(func() { managerOnce.got, managerOnce.err = w.manage(load{jobs: managerCount, script: "true"}) })
		if managerOnce.err != nil {
			return 0, "", managerOnce.err
		}
		m := managerOnce.got
		return of(m), fmt.Sprintf("%d jobs, %d at once: %.0f a second, %.0f ms each, of which %.1f ms of processor, %.0f MB", managerCount, managerParallel, m.rate, m.took, m.cpu, m.memory), nil
	}
}

// managerExecutions is how many programs a job of `true` starts, with the shell that it asks for.
func managerExecutions(w *world) (float64, string, error) {
	if err := exec.Command("perf", "stat", "-e", programStarted, "true").Run(); err != nil {
		return 0, "", skipped("only perf counts programs, and only for root: " + err.Error())
	}
	m, err := w.manage(load{jobs: managerCount, script: "true", count: true})
	if err != nil {
		return 0, "", err
	}
	return m.executions, "none: gitlab-runner 19.4 had 30", nil
}

// programStarted is the kernel's event.
const programStarted = "sched:sched_process_exec"

// logOnce runs the job with a long log for the figures of it.
var logOnce struct {
	sync.Once
	got *managed
	err error
}

// managerLog is of how the log of a job arrives at GitLab, of which there are so many GB before each line gets its time.
func managerLog(of func(m *managed, gb float64) float64) func(*world) (float64, string, error) {
	return func(w *world) (float64, string, error) {
		const size = 256 << 20
		logOnce.Do(func() { logOnce.got, logOnce.err = w.manage(load{jobs: 1, script: logScript(size)}) })
		if logOnce.err != nil {
			return 0, "", logOnce.err
		}
		m := logOnce.got
		return of(m, size/1e9), fmt.Sprintf("none: %d MB in %.1f s, with %.1f s of processor for manager, step-runner and job", size>>20, m.second, m.cpu/1e3), nil
	}
}

// managerLogMemory is how much more memory a long log needs than a short one. It takes 5 GB of disk for a while.
func managerLogMemory(w *world) (float64, string, error) {
	short, err := w.manage(load{jobs: 1, script: logScript(16 << 20)})
	if err != nil {
		return 0, "", err
	}
	long, err := w.manage(load{jobs: 1, script: logScript(2 << 30), dir: w.dir})
	if err != nil {
		return 0, "", err
	}
	return long.memory / short.memory, fmt.Sprintf("%.1f MB with 16 MB of log, %.1f MB with 2 GB", short.memory, long.memory), nil
}

// logScript is a script that prints so many bytes, in lines like those of builds.
func logScript(size int) string {
	const line = "[INFO] Downloaded from central: a line like those that build tools print, of about a hundred characters"
	return fmt.Sprintf("{ yes '%s' || true; } | head -c %d", line, size)
}

// load is what a manager has to do.
type load struct {
	jobs   int
	script string
	count  bool   // the programs that are started
	dir    string // where all files are; empty is in memory
}

// manage lets a manager of its own run jobs of one line, without files, on level none.
func (w *world) manage(l load) (*managed, error) {
	if l.dir == "" {
		var err error
		if l.dir, err = w.memory(); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp(l.dir, "manager-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	server := gitlabtest.New(gitlabtest.Options{MaxLog: 4 << 30, KeepLog: 1 << 20})
	counts := ""
	if l.count {
		counts = filepath.Join(dir, "counts")
	}
	r, err := w.runManager(start{server: server, dir: dir, concurrent: managerParallel, entry: fmt.Sprintf("executor = \"shell\"\noutput_limit = %d\n", 4<<20), counts: counts})
	if err != nil {
		return nil, err
	}
	defer r.end()
	took, err := serve(server, l)
	if err != nil {
		return nil, err
	}
	m := &managed{second: time.Since(r.began).Seconds()}
	if l.count { // perf ends with it
		if r.pid, err = childOf(r.pid); err != nil {
			return nil, err
		}
	}
	m.rate, m.took = float64(l.jobs)/m.second, float64(took[len(took)/2])/float64(time.Millisecond)
	if m.memory, err = peakOf(r.pid); err != nil {
		return nil, err
	}
	r.end()
	if l.count {
		m.executions, err = executions(counts, l.jobs)
	}
	m.cpu = float64(r.cmd.ProcessState.UserTime()+r.cmd.ProcessState.SystemTime()) / float64(time.Millisecond) / float64(l.jobs)
	return m, err
}

// serve hands out the jobs, and returns how long each took, the shortest first.
func serve(server *gitlabtest.Server, l load) ([]time.Duration, error) {
	var all []*gitlabtest.Job
	for range l.jobs {
		all = append(all, server.Enqueue(gitlab.Job{
			Info:      gitlab.JobInfo{Name: "bench", ProjectID: 1},
			Variables: []gitlab.Variable{{Key: "GIT_STRATEGY", Value: "none"}},
			Steps:     []gitlab.Step{{Name: "script", Script: []string{l.script}}},
		}))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	var took []time.Duration
	for _, j := range all {
		r, err := j.Wait(ctx)
		if err == nil && r.State != gitlab.Success {
			err = fmt.Errorf("a job is %s: %s", r.State, r.Log[max(0, len(r.Log)-400):])
		}
		if err != nil {
			return nil, err
		}
		took = append(took, r.Took)
	}
	slices.Sort(took)
	return took, errors.Join(violations(server)...)
}

func violations(server *gitlabtest.Server) (all []error) {
	for _, v := range server.Violations() {
		all = append(all, errors.New(v))
	}
	return all
}

// executions reads what perf has counted: the programs that were started for so many jobs, of which one is the manager.
func executions(file string, jobs int) (float64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if count, what, _ := strings.Cut(line, ",,"); strings.HasPrefix(what, programStarted) {
			n, err := strconv.Atoi(count)
			return float64(n-1) / float64(jobs), err
		}
	}
	return 0, fmt.Errorf("perf has not counted: %s", text)
}

// childOf is the only child of a process that has one thread.
func childOf(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// peakOf is the most memory that a process has had, in MB.
func peakOf(pid int) (float64, error) { return statusOf(pid, "VmHWM:") }

// statusOf reads an amount of memory from the status of a process, in MB. Only Linux has one.
func statusOf(pid int, name string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, skipped("only Linux says how much memory another process has")
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kB, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kB / 1000, err
		}
	}
	return 0, fmt.Errorf("the status of process %d has no %s", pid, name)
}

// quietCount is how many quiet jobs run at once.
const quietCount = 1000

// managerQuiet is what a thousand jobs take that say nothing, in the manager's own process: they run nowhere.
func managerQuiet(w *world) (float64, string, error) {
	memory, err := w.memory()
	if err != nil {
		return 0, "", err
	}
	dir, err := os.MkdirTemp(memory, "quiet-")
	if err != nil {
		return 0, "", err
	}
	defer os.RemoveAll(dir)
	server := gitlabtest.New(gitlabtest.Options{})
	address, closing, err := listen(server)
	if err != nil {
		return 0, "", err
	}
	defer closing()
	c := config.Check("config.toml", []byte(configOf(address, server, quietCount, "executor = \"shell\"\n")), os.Getenv)
	if err := c.Err(); err != nil {
		return 0, "", err
	}
	level := &fake.Executor{Name: executor.None, Can: &executor.Capabilities{Reattach: true}, Run: func(ctx context.Context, _ *fake.Run) event.Status { <-ctx.Done(); return event.Cancelled }}
	before, err := residentOf(os.Getpid())
	if err != nil {
		return 0, "", err
	}
	m, err := manager.New(manager.Options{
		Config: c.Config, SystemID: "s_0123456789ab", State: filepath.Join(dir, "state"),
		Open: func(context.Context, *config.Runner, executor.Level, executor.Setup) (executor.Executor, error) {
			return level, nil
		},
	})
	if err != nil {
		return 0, "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Run(context.Background()) }()
	for range quietCount {
		server.Enqueue(gitlab.Job{
			Info: gitlab.JobInfo{Name: "quiet", ProjectID: 1}, Variables: []gitlab.Variable{{Key: "GIT_STRATEGY", Value: "none"}},
			Steps: []gitlab.Step{{Name: "script", Script: []string{"true"}}},
		})
	}
	for began := time.Now(); len(level.Environments()) < quietCount; time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			return 0, "", fmt.Errorf("%d of %d jobs have begun", len(level.Environments()), quietCount)
		}
	}
	time.Sleep(5 * time.Second) // every job has sent the first of its log
	after, err := residentOf(os.Getpid())
	m.Kill("the benchmark is over")
	return after - before, fmt.Sprintf("none: %d jobs with their GitLab in one process", quietCount), errors.Join(err, <-ended)
}

func residentOf(pid int) (float64, error) { return statusOf(pid, "VmRSS:") }
