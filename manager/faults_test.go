//go:build unix

package manager_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/provider/hosts"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
	"github.com/rungci/rung/manager/job"
)

// victim is a manager in a process of its own, which is killed.
type victim struct {
	URL, Token, Dir, Program string
	Writes                   int    // it is killed after so many writes of state; 0 is never
	Global, Entry            string // its configuration; no Global is four jobs at once
	Hosts                    []hosts.Host
}

// victimFile names the environment variable that makes this test binary a victim.
const victimFile = "RUNG_TEST_VICTIM"

// be is a victim, until SIGQUIT has ended its last job.
func (v *victim) be() error {
	w := &world{dir: v.Dir, url: v.URL, tokens: []string{v.Token}, hosts: v.Hosts}
	c, err := w.read(cmp.Or(v.Global, "concurrent = 4\ncheck_interval = 1"), v.Entry)
	if err != nil {
		return err
	}
	writes := make(chan *job.Record)
	go func() {
		for n := 1; ; n++ {
			if r := <-writes; r != nil && r.Handle != nil {
				v.note(r.Handle.ID, r.Payload.ID)
			}
			if n == v.Writes {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
	}()
	manager.OnWrite(func(r *job.Record) { writes <- r })
	m, err := manager.New(w.options(c, v.Program))
	if err != nil {
		return err
	}
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	if err := os.WriteFile(v.heeds(os.Getpid()), nil, 0o600); err != nil {
		return err
	}
	go func() {
		<-quit
		m.Drain()
	}()
	return m.Run(context.Background())
}

// heeds is the file by which a victim says that it heeds SIGQUIT.
func (v *victim) heeds(pid int) string { return filepath.Join(v.Dir, fmt.Sprintf("heeds-%d", pid)) }

// drain lets a victim end its last job, and waits for its end.
func (v *victim) drain(t *testing.T, cmd *exec.Cmd, ended <-chan error) {
	t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(v.heeds(cmd.Process.Pid)); err == nil {
			break
		}
	}
	_ = cmd.Process.Signal(syscall.SIGQUIT)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// note says which job an environment is for.
func (v *victim) note(environment string, id int64) {
	folder := filepath.Join(v.Dir, "environments")
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, environment), []byte(strconv.FormatInt(id, 10)), 0o600)); err != nil {
		panic(err)
	}
}

func beVictim(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var v victim
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	return v.be()
}

// start starts a victim and returns what waits for its end.
func (v *victim) start(t *testing.T) (*exec.Cmd, <-chan error) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(v.Dir, "victim")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), victimFile+"="+file), &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		if err != nil && !strings.Contains(err.Error(), "killed") {
			err = fmt.Errorf("%w: %s", err, said.String())
		}
		ended <- err
	}()
	return cmd, ended
}

const lines = 12

// TestFaults kills the manager, or the step-runner of a job, at seeded points: each job ends once with the right state and reason, its log has each
// byte once, and nothing is left. RUNG_FAULTS is the number of jobs, and RUNG_SEED begins another sequence.
func TestFaults(t *testing.T) {
	jobs, seed := number("RUNG_FAULTS", 24), number("RUNG_SEED", 1)
	rnd := rand.New(rand.NewPCG(uint64(seed), 0)) //nolint:gosec // of a test
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.server = gitlabtest.New(gitlabtest.Options{Unwatched: 1, Requeue: 2 * time.Second})
	w.serve()
	v := &victim{URL: w.url, Token: w.server.NewRunner(), Dir: w.dir, Program: program}
	text := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); echo "line $i of $CI_JOB_ID"; sleep 0.02; done; exit $CODE`, lines)
	all := map[*gitlabtest.Job]int{}
	for n := range jobs {
		from, code := script(text), 0
		if n%3 == 0 {
			code = 1 + n%100
		}
		from.Variables = append(from.Variables, gitlab.Variable{Key: "CODE", Value: strconv.Itoa(code)})
		all[w.server.Enqueue(from)] = code
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(jobs)*10*time.Second)
	defer cancel()
	kills, struck := 0, map[int64]bool{}
	lost := 0 // step-runners that no job had yet
	for ctx.Err() == nil && unfinished(all) > 0 {
		v.Writes = 1 + rnd.IntN(14)
		cmd, ended := v.start(t)
		if rnd.IntN(4) == 0 {
			time.Sleep(time.Duration(rnd.IntN(200)) * time.Millisecond)
			if !killStepRunner(w.dir, rnd, struck) {
				lost++
			}
		}
		for unfinished(all) > 0 {
			select {
			case err := <-ended:
				if err == nil || !strings.Contains(err.Error(), "killed") {
					t.Fatal(err)
				}
				kills++
				ended = nil
			case <-time.After(20 * time.Millisecond):
				continue
			}
			break
		}
		if ended != nil {
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	v.Writes = 0
	last, ended := v.start(t)
	v.drain(t, last, ended) // it removes what nobody adopts
	failed, others := 0, 0
	for j, code := range all {
		if n := checkJob(t, j.Result(), code); n > 0 {
			failed++
			if !struck[j.Ref().ID] {
				others++
				t.Logf("the job %d failed:\n%s", j.Ref().ID, j.Result().Log)
			}
		}
	}
	t.Logf("of %d jobs, %d lost their step-runners; %d managers and %d other step-runners were killed; %d jobs failed", jobs, len(struck), kills, lost, failed)
	if others > lost { // the death of a manager alone fails no job
		t.Errorf("%d jobs failed whose step-runners were not killed, and %d step-runners were killed that no job had yet", others, lost)
	}
	checkNothingLeft(t, w.dir)
	for _, violation := range w.server.Violations() {
		t.Error("GitLab objects:", violation)
	}
}

// checkJob reports whether a job failed because something was killed.
func checkJob(t *testing.T, r gitlabtest.Result, code int) int {
	t.Helper()
	finals := 0
	for _, u := range r.Updates {
		if u == gitlab.Success || u == gitlab.Failed {
			finals++
		}
	}
	at := 0
	for i := 1; i <= lines; i++ {
		n := strings.Count(r.Log, fmt.Sprintf("line %d of ", i))
		if n > 1 || n == 1 && i != at+1 {
			t.Errorf("line %d is %d times in the log, after line %d:\n%s", i, n, at, r.Log)
		}
		at += n
	}
	switch {
	case finals == 0:
		t.Errorf("a job has not ended: %s\n%s", r.State, r.Log)
	case r.FailureReason == "runner_system_failure":
		return 1
	case at != lines:
		t.Errorf("the log ends at line %d:\n%s", at, r.Log)
	case r.State == gitlab.Success != (code == 0) || r.ExitCode != code:
		t.Errorf("the job is %s with %d, want exit code %d\n%s", r.State, r.ExitCode, code, r.Log)
	}
	return 0
}

// checkNothingLeft looks for files and processes of jobs. Projects are kept, and no job has one any more.
func checkNothingLeft(t *testing.T, dir string) {
	t.Helper()
	for _, pattern := range []string{"state/running/*", "state/builds/job-*", "state/builds/*.busy", "state/environments/*", "state/jobs/runners/*/[0-9n]*", "temp/*"} {
		if left, _ := filepath.Glob(filepath.Join(dir, pattern)); len(left) > 0 {
			t.Error("left:", left)
		}
	}
	pids := processesOf(dir, "")
	for until := time.Now().Add(dying); len(pids) > 0 && time.Now().Before(until); pids = processesOf(dir, "") {
		time.Sleep(50 * time.Millisecond)
	}
	for _, pid := range pids {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		t.Errorf("the process %d is left: %q\n%s", pid, args, status)
	}
}

// dying is how long a process may take that has been killed, or that sees by itself that nobody needs it.
const dying = 30 * time.Second

// killStepRunner kills one, if any runs. The job that has it is struck; known is false if none has.
func killStepRunner(dir string, rnd *rand.Rand, struck map[int64]bool) (known bool) {
	pids := processesOf(dir, "serve")
	if len(pids) == 0 {
		return true
	}
	pid := pids[rnd.IntN(len(pids))]
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	environments, _ := os.ReadDir(filepath.Join(dir, "environments"))
	for _, e := range environments {
		if bytes.Contains(args, []byte(e.Name()+"/")) {
			text, _ := os.ReadFile(filepath.Join(dir, "environments", e.Name()))
			id, _ := strconv.ParseInt(string(text), 10, 64)
			struck[id], known = true, true
		}
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	return known
}

// processesOf are those with dir in their command line or environment, and word among their arguments. This process is not among them.
func processesOf(dir, word string) (pids []int) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		pid, _ := strconv.Atoi(filepath.Base(folder))
		args, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(folder, "environ"))
		if pid != os.Getpid() && bytes.Contains(append(args, env...), []byte(dir)) && (word == "" || bytes.Contains(args, []byte("\x00"+word+"\x00"))) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func unfinished(all map[*gitlabtest.Job]int) (n int) {
	for j := range all {
		if s := j.Result().State; s != gitlab.Success && s != gitlab.Failed && s != gitlab.Canceled {
			n++
		}
	}
	return n
}

func number(name string, byDefault int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return byDefault
}
