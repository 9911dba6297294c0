//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rungci/rung/bench/machines"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

// machineFigures are of `rung run` with a fleet whose machines are reached by SSH on loopback.
var machineFigures = []figure{
	{name: "fleet: first command over SSH, over none", unit: "ms", target: 60, measure: firstOverSSH},
	{name: "fleet: end of a job whose machine falls silent", unit: "s", target: 30, measure: silentMachine},
	{name: "fleet: memory for 500 machines, 1,000 jobs", unit: "MB", target: 500, measure: crowded(func(c *crowd) float64 { return c.memory })},
	{name: "fleet: processor time of 10 MB of their log", unit: "s", target: 1, measure: crowded(func(c *crowd) float64 { return c.second })},
}

const (
	// crowdMachines and crowdJobs are how many there are at once.
	crowdMachines, crowdJobs = 500, 1000
	// crowdBatch is how many jobs begin at once.
	crowdBatch = 100
	// crowdChunk is what each job prints a second, in bytes, and crowdChunks how often.
	crowdChunk, crowdChunks = 10_000, 40
	// crowdProcessors and crowdMemory (MB) are what the jobs themselves need on this machine, so that it answers in time: each has a step-runner and a shell.
	crowdProcessors, crowdMemory = 8, 12_000
	// crowdTime bounds each part of it.
	crowdTime = 15 * time.Minute
)

// fleetEntry is a runner with a fleet of machines that all are kept ready.
func fleetEntry(m *machines.Machines, jobsEach int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `executor = "instance"
  [runners.autoscaler]
    plugin = "static"
    capacity_per_instance = %d
    max_instances = %d
    update_interval_when_expecting = "200ms"
    [runners.autoscaler.connector_config]
      username = "bench"
      key_path = %q
      use_static_credentials = true
    [[runners.autoscaler.policy]]
      idle_count = %d
      idle_time = "24h"
      preemptive_mode = false
    [runners.autoscaler.plugin_config]
`, jobsEach, len(m.Hosts), m.Key, jobsEach*len(m.Hosts))
	b.WriteString("      hosts = [")
	for _, h := range m.Hosts {
		fmt.Fprintf(&b, "{address = %q, host_key = %q},", h.Address, h.Fingerprint)
	}
	b.WriteString("]\n")
	return b.String()
}

// firstOverSSH is how much later the first command of a job begins on a machine that is ready, reached by SSH, than on level none of this machine: the
// median of differences between jobs that take turns.
func firstOverSSH(w *world) (float64, string, error) {
	memory, err := w.memory()
	if err != nil {
		return 0, "", err
	}
	dir, err := os.MkdirTemp(memory, "over-ssh-")
	if err != nil {
		return 0, "", err
	}
	defer os.RemoveAll(dir)
	there, err := machines.Start(1, dir)
	if err != nil {
		return 0, "", err
	}
	defer there.Stop()
	far, near := gitlabtest.New(gitlabtest.Options{LongPoll: time.Minute}), gitlabtest.New(gitlabtest.Options{LongPoll: time.Minute})
	managers := [2]*running{}
	for i, e := range []struct {
		server *gitlabtest.Server
		text   string
	}{{far, fleetEntry(there, 1)}, {near, "executor = \"shell\"\n"}} {
		folder := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(folder, 0o700); err != nil {
			return 0, "", err
		}
		if managers[i], err = w.runManager(start{server: e.server, dir: folder, concurrent: 1, entry: e.text}); err != nil {
			return 0, "", err
		}
		defer managers[i].end()
	}
	var differences, over, none []time.Duration
	for round := range 3 + 2*w.rounds { // the first bring the step-runner to the machine, and fill caches
		var took [2]time.Duration
		for i, m := range managers {
			if took[i], err = firstCommand(m.server); err != nil {
				return 0, "", err
			}
		}
		if round >= 3 {
			differences, over, none = append(differences, took[0]-took[1]), append(over, took[0]), append(none, took[1])
		}
	}
	return median(differences).Seconds() * 1e3, fmt.Sprintf("level none in %s, over SSH in %s, from the hand-out to the first command", ms(median(none)), ms(median(over))), errors.Join(append(violations(far), violations(near)...)...)
}

// silentMachine is how long a job goes on whose machine answers no more, while its connections stay open.
func silentMachine(w *world) (float64, string, error) {
	dir, err := os.MkdirTemp(w.dir, "silent-")
	if err != nil {
		return 0, "", err
	}
	defer os.RemoveAll(dir)
	there, err := machines.Start(1, dir)
	if err != nil {
		return 0, "", err
	}
	defer there.Stop()
	server := gitlabtest.New(gitlabtest.Options{LongPoll: time.Minute})
	m, err := w.runManager(start{server: server, dir: dir, concurrent: 1, entry: fleetEntry(there, 1)})
	if err != nil {
		return 0, "", err
	}
	defer m.end()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	job := enqueue(server, "echo ready; sleep 60")
	if err := job.WaitLog(ctx, "ready\n"); err != nil {
		return 0, "", fmt.Errorf("the job has not begun: %w: %s", err, job.Result().Log)
	}
	if err := there.Process.Signal(syscall.SIGSTOP); err != nil {
		return 0, "", err
	}
	defer func() { _ = there.Process.Signal(syscall.SIGCONT) }()
	began := time.Now()
	r, err := job.Wait(ctx)
	if err == nil && (r.State != gitlab.Failed || r.FailureReason != gitlab.ReasonSystem) {
		err = fmt.Errorf("a job whose machine is silent is %s (%s): %s", r.State, r.FailureReason, r.Log)
	}
	return time.Since(began).Seconds(), "none", errors.Join(append(violations(server), err)...)
}

// firstCommand is the time from the hand-out of a job until its first command runs, which says the time.
func firstCommand(server *gitlabtest.Server) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), crowdTime)
	defer cancel()
	r, err := enqueue(server, `echo "began at $EPOCHREALTIME"`).Wait(ctx)
	if err != nil {
		return 0, err
	}
	if r.State != gitlab.Success {
		return 0, fmt.Errorf("a job is %s: %s", r.State, r.Log)
	}
	_, rest, _ := strings.Cut(r.Log, "began at 1")
	seconds, microseconds, _ := strings.Cut("1"+strings.Fields(rest + " -")[0], ".")
	whole, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the job says no time: %w: %s", err, r.Log)
	}
	part, err := strconv.ParseInt(microseconds, 10, 64)
	return time.UnixMicro(whole*1e6 + part).Sub(r.HandedOut), err
}

func enqueue(server *gitlabtest.Server, script string) *gitlabtest.Job {
	return server.Enqueue(gitlab.Job{
		Info: gitlab.JobInfo{Name: "bench", ProjectID: 1}, Variables: []gitlab.Variable{{Key: "GIT_STRATEGY", Value: "none"}},
		Steps: []gitlab.Step{{Name: "script", Script: []string{script}}},
	})
}

// crowd is what a manager needs for many machines at once.
type crowd struct {
	memory float64 // MB at most
	second float64 // s of processor time for each 10 MB of log, while all jobs run
	begin  float64 // s of processor time until all jobs run
	rate   float64 // MB of log a second
}

var crowdOnce struct {
	sync.Once
	got *crowd
	err error
}

func crowded(of func(*crowd) float64) func(*world) (float64, string, error) {
	return func(w *world) (float64, string, error) {
		crowdOnce.Do(func() { crowdOnce.got, crowdOnce.err = w.crowd() })
		if crowdOnce.err != nil {
			return 0, "", crowdOnce.err
		}
		c := crowdOnce.got
		return of(c), fmt.Sprintf("none: %d machines, %d jobs at once, %.1f MB/s of log: %.0f MB, %.2f s of processor for 10 MB, and %.0f s to begin all jobs", crowdMachines, crowdJobs, c.rate, c.memory, c.second, c.begin), nil
	}
}

// crowd lets a manager run jobs on many machines, which wait for each other, and then print so much a second for a while.
func (w *world) crowd() (*crowd, error) {
	if n := runtime.NumCPU(); n < crowdProcessors {
		return nil, skipped(fmt.Sprintf("%d machines on this one need %d processors, and it has %d", crowdMachines, crowdProcessors, n))
	}
	if free, err := memoryFree(); err != nil || free < crowdMemory {
		return nil, skipped(fmt.Sprintf("%d jobs on this machine need %d MB of memory, and it has %.0f", crowdJobs, crowdMemory, free))
	}
	memory, err := w.memory()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(memory, "crowd-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	there, err := machines.Start(crowdMachines, dir)
	if err != nil {
		return nil, err
	}
	defer there.Stop()
	server := gitlabtest.New(gitlabtest.Options{KeepLog: 4 << 10, LongPoll: time.Minute})
	m, err := w.runManager(start{server: server, dir: dir, concurrent: crowdJobs, entry: "request_concurrency = 20\n" + fleetEntry(there, crowdJobs/crowdMachines)})
	if err != nil {
		return nil, err
	}
	defer m.end()
	if _, err := firstCommand(server); err != nil { // the machines share a home: now all have the step-runner
		return nil, err
	}
	begin, never := filepath.Join(dir, "begin"), filepath.Join(dir, "never")
	for _, fifo := range []string{begin, never} {
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			return nil, err
		}
	}
	script := fmt.Sprintf(`exec 8<>%q; line=$(printf '%%099d' 0); chunk=; for i in {1..%d}; do chunk+=$line$'\n'; done; echo ready; read <%q; for i in {1..%d}; do printf %%s "$chunk"; read -t 1 <&8; done; true`,
		never, crowdChunk/100, begin, crowdChunks)
	ctx, cancel := context.WithTimeout(context.Background(), crowdTime)
	defer cancel()
	var jobs []*gitlabtest.Job
	for len(jobs) < crowdJobs { // all machines are this one: what they do at once takes its time from the manager
		for range crowdBatch {
			jobs = append(jobs, enqueue(server, script))
		}
		for _, j := range jobs[len(jobs)-crowdBatch:] {
			if err := j.WaitLog(ctx, "ready\n"); err != nil {
				return nil, fmt.Errorf("job %d has not begun: %w: %s", len(jobs), err, j.Result().Log)
			}
		}
	}
	return m.measure(ctx, jobs, begin)
}

// measure lets the jobs go on, which wait for somebody to open a file, and measures what the manager needs meanwhile.
func (m *running) measure(ctx context.Context, jobs []*gitlabtest.Job, begin string) (*crowd, error) {
	c := &crowd{}
	var err error
	if c.begin, err = processorOf(m.pid); err != nil {
		return nil, err
	}
	gate, err := os.OpenFile(begin, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	_ = gate.Close()
	const all = crowdJobs * crowdChunk * crowdChunks
	var from, to struct {
		at        time.Time
		log       int64
		processor float64
	}
	for to.log < all*3/4 { // the last of it comes when jobs end already
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d bytes of log have come", to.log, all)
		case <-time.After(time.Second):
		}
		to.at, to.log = time.Now(), 0
		for _, j := range jobs {
			to.log += j.Status().LogSize
		}
		if to.processor, err = processorOf(m.pid); err != nil {
			return nil, err
		}
		if from.log == 0 && to.log > all/10 {
			from = to
		}
	}
	printed := float64(to.log - from.log)
	c.second, c.rate = (to.processor-from.processor)/printed*1e7, printed/1e6/to.at.Sub(from.at).Seconds()
	for _, j := range jobs {
		r, err := j.Wait(ctx)
		if err == nil && (r.State != gitlab.Success || r.LogSize < crowdChunk*crowdChunks) {
			err = fmt.Errorf("a job is %s after %d bytes: %s", r.State, r.LogSize, r.Log[max(0, len(r.Log)-400):])
		}
		if err != nil {
			return nil, err
		}
	}
	if c.memory, err = peakOf(m.pid); err != nil {
		return nil, err
	}
	return c, errors.Join(violations(m.server)...)
}

// processorOf is the processor time that a process has had, in seconds.
func processorOf(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, skipped("only Linux says how much processor time another process has had")
	}
	const hertz = 100 // USER_HZ, on all of Linux's architectures that Go knows
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	ticks := 0.0
	for _, field := range fields[11:13] { // utime and stime; proc_pid_stat(5)
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return ticks / hertz, nil
}

// memoryFree is how much memory this machine has to give, in MB.
func memoryFree() (float64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "MemAvailable:"); found {
			kB, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kB / 1000, err
		}
	}
	return 0, errors.New("/proc/meminfo has no MemAvailable")
}
