//go:build unix

package manager_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/fake"
	"github.com/rungci/rung/executor/provider/hosts"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

// provided is the entry of a runner whose machines come from the provider of the world.
const provided = "limit = 8\nrequest_concurrency = 8\n[runners.provider]\nname = \"in the test\"\nacquire_timeout = \"1m\"\n"

// reachable makes hosts of SSH servers, each with a folder of its own for jobs.
func reachable(t *testing.T, slots int, servers ...*hosttest.SSHD) (out []hosts.Host) {
	t.Helper()
	for i, s := range servers {
		user, address, _ := strings.Cut(s.Address, "@")
		out = append(out, hosts.Host{
			Name: fmt.Sprintf("machine-%c", 'a'+i), Slots: slots, Temp: filepath.Join(t.TempDir(), fmt.Sprintf("on-%c", 'a'+i)),
			Access: provider.Access{Protocol: provider.SSH, Address: address, User: user, KeyFile: s.Key, KnownHosts: s.KnownHosts},
		})
	}
	for _, h := range out {
		if err := os.MkdirAll(h.Temp, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestJobsRunOnTheMachinesOfAProvider(t *testing.T) {
	a, b := hosttest.StartSSHD(t), hosttest.StartSSHD(t)
	w := newWorld(t)
	w.hosts = reachable(t, 2, a, b)
	const jobs = 8
	var all []*gitlabtest.Job
	for range jobs {
		all = append(all, w.server.Enqueue(script(`there="$PWD/../../$$.job"; touch "$there"; echo "begun in $PWD."; sleep 3; rm "$there"; echo whole`)))
	}
	w.start(w.configure("concurrent = 8\ncheck_interval = 1", provided))
	counts := func() map[string]int {
		on := map[string]int{}
		for _, h := range w.hosts {
			there, _ := filepath.Glob(filepath.Join(h.Temp, "*.job"))
			on[filepath.Base(h.Temp)] = len(there)
		}
		return on
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		on := counts()
		if on["on-a"] > 2 || on["on-b"] > 2 {
			t.Fatal("too many jobs on a machine:", on)
		}
		if on["on-a"] == 2 && on["on-b"] == 2 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("not all slots are used:", on)
		}
	}
	if s := w.manager.State().Entries[0].Machines; s == nil || s.Free != 0 || s.Used != 4 || s.Reserved != 0 {
		t.Errorf("the status of the machines is %+v", s)
	}
	b.Away(true)
	b.Cut()
	failed := 0
	for _, j := range all {
		r := w.result(j)
		switch {
		case r.State == gitlab.Success:
		case r.FailureReason == "runner_system_failure" && strings.Contains(r.Log, "machine-b"):
			failed++
		default:
			t.Errorf("a job is %s, %s:\n%s", r.State, r.FailureReason, r.Log)
		}
	}
	if failed > 2 {
		t.Errorf("%d jobs failed, and 2 were on the machine that was lost", failed)
	}
	t.Logf("%d jobs failed with their machine", failed)
	w.manager.Drain()
	w.wait()
}

func TestTheJobOfAKilledManagerGoesOnOnItsMachine(t *testing.T) {
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	s := hosttest.StartSSHD(t)
	w := newWorld(t)
	w.server = gitlabtest.New(gitlabtest.Options{Unwatched: 1})
	w.serve()
	v := &victim{URL: w.url, Token: w.server.NewRunner(), Dir: w.dir, Program: program, Entry: provided, Hosts: reachable(t, 1, s)}
	job := w.server.Enqueue(script(fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); echo "line $i of it"; sleep 0.7; done`, lines)))
	first, ended := v.start(t)
	if err := job.WaitLog(t.Context(), "line 2 of"); err != nil {
		t.Fatal(err)
	}
	_ = first.Process.Kill()
	<-ended
	second, ended := v.start(t)
	if r := w.result(job); r.State != gitlab.Success {
		t.Errorf("the job is %s: %s\n%s", r.State, r.FailureReason, r.Log)
	} else {
		for i := 1; i <= lines; i++ {
			if n := strings.Count(r.Log, fmt.Sprintf("line %d of it", i)); n != 1 {
				t.Errorf("line %d is %d times in the log:\n%s", i, n, r.Log)
			}
		}
	}
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if left, _ := filepath.Glob(filepath.Join(v.Hosts[0].Temp, "rung-job-*")); len(left) == 0 {
			break // what nobody adopts is removed
		}
	}
	v.drain(t, second, ended)
	if left, _ := filepath.Glob(filepath.Join(v.Hosts[0].Temp, "*")); len(left) > 0 {
		t.Error("left on the machine:", left)
	}
}

func TestNoJobIsAskedForWithoutAMachine(t *testing.T) {
	w := newWorld(t)
	p := fake.New(fake.Options{Room: 0}, provider.Setup{})
	w.others = p
	job := w.server.Enqueue(script("echo there"))
	w.start(w.configure("concurrent = 2\ncheck_interval = 1", provided))
	time.Sleep(500 * time.Millisecond)
	if r := job.Result(); r.State != gitlab.Pending {
		t.Errorf("without a machine the job is %s", r.State)
	}
	p.Resize(1)
	if r := w.result(job); r.State != gitlab.Success {
		t.Errorf("%s\n%s", r.State, r.Log)
	}
}

func TestAJobGetsAnotherMachineWhenOneIsOfNoUse(t *testing.T) {
	w := newWorld(t)
	w.others = fake.New(fake.Options{Room: 1, Machine: func(number int, m *provider.Machine) {
		if number == 1 {
			m.Access = provider.Access{Protocol: provider.SSH, Address: "127.0.0.1:1", User: "nobody", KeyFile: filepath.Join(w.dir, "none")}
		}
	}}, provider.Setup{})
	job := w.server.Enqueue(script("echo there"))
	w.start(w.configure("concurrent = 1\ncheck_interval = 1", provided))
	if r := w.result(job); r.State != gitlab.Success || !strings.Contains(r.Log, "The job gets another machine.") {
		t.Errorf("%s\n%s", r.State, r.Log)
	}
}

func TestAReservationThatVanishedIsMadeAgain(t *testing.T) {
	w := newWorld(t)
	var p *fake.Provider
	var once sync.Once
	p = fake.New(fake.Options{Room: 1, Before: func(ctx context.Context, c fake.Call) (err error) {
		if c.Name == "Acquire" {
			once.Do(func() { err = p.Provider.Release(ctx, c.Key, "") })
		}
		return err
	}}, provider.Setup{})
	w.others = p
	job := w.server.Enqueue(script("echo there"))
	w.start(w.configure("concurrent = 1\ncheck_interval = 1", provided))
	if r := w.result(job); r.State != gitlab.Success {
		t.Errorf("%s\n%s", r.State, r.Log)
	}
}

func TestAJobAsksForMoreOfItsMachine(t *testing.T) {
	w := newWorld(t)
	here := provider.Access{Protocol: provider.Local}
	w.hosts = []hosts.Host{
		{Name: "small", Slots: 8, Access: here, Has: provider.Needs{CPUs: 2}}, // for all that are asked for at once
		{Name: "large", Slots: 1, Access: here, Has: provider.Needs{CPUs: 8, Labels: map[string]string{"disk": "ssd"}}},
	}
	asking := func(name, value string) *gitlabtest.Job {
		job := script("echo there")
		job.Variables = append(job.Variables, gitlab.Variable{Key: "RUNG_NEEDS_" + name, Value: value})
		return w.server.Enqueue(job)
	}
	larger, ssd, more, none := asking("CPUS", "4"), asking("LABELS", "disk=ssd"), asking("CPUS", "9"), asking("GPUS", "1")
	on := func(job *gitlabtest.Job, machine string) {
		t.Helper()
		if r := w.result(job); r.State != gitlab.Success || !strings.Contains(r.Log, machine) {
			t.Errorf("%s %s, want it on %s:\n%s", r.State, r.FailureReason, machine, r.Log)
		}
	}
	refused := func(job *gitlabtest.Job, rule string) {
		t.Helper()
		if r := w.result(job); r.State != gitlab.Failed || !strings.Contains(r.Log, rule) || strings.Contains(r.Log, "there\n") {
			t.Errorf("%s %s, want that it is refused by %s:\n%s", r.State, r.FailureReason, rule, r.Log)
		}
	}
	w.start(w.configure("concurrent = 4\ncheck_interval = 1", provided+"[runners.provider.needs]\ncpus = 1\n[runners.provider.allowed_needs]\ncpus = 8\nlabels = [\"disk=*\"]\n"))
	on(larger, "large")
	on(ssd, "large")
	on(w.server.Enqueue(script("echo there")), "small")
	refused(more, "runners.provider.allowed_needs.cpus")
	refused(none, "runners.provider.allowed_needs.gpus")
}

func TestAChangedProviderTakesEffectAndJobsKeepTheirMachines(t *testing.T) {
	w := newWorld(t)
	here := provider.Access{Protocol: provider.Local}
	stays, goes := hosts.Host{Name: "stays", Slots: 1, Access: here}, hosts.Host{Name: "goes", Slots: 1, Access: here}
	w.hosts = []hosts.Host{stays, goes}
	end := filepath.Join(w.dir, "end")
	until := script("echo begun; until [ -e " + end + " ]; do sleep 0.1; done; echo whole")
	first, second := w.server.Enqueue(until), w.server.Enqueue(until)
	text := func(list ...string) string {
		entry := "limit = 8\nrequest_concurrency = 8\n"
		for _, name := range list {
			entry += "[[runners.provider.hosts]]\naddress = \"local\"\nname = \"" + name + "\"\n"
		}
		return entry
	}
	w.start(w.configure("concurrent = 8\ncheck_interval = 1", text("stays", "goes")))
	for _, job := range []*gitlabtest.Job{first, second} {
		if err := job.WaitLog(t.Context(), "begun\n"); err != nil {
			t.Fatal(err)
		}
	}
	w.hosts = []hosts.Host{stays, {Name: "new", Slots: 1, Access: here}}
	if err := w.manager.Reload(t.Context(), w.configure("concurrent = 8\ncheck_interval = 1", text("stays", "new"))); err != nil {
		t.Fatal(err)
	}
	for range 2 { // one after the other: the slot of the machine that stays is taken
		if r := w.result(w.server.Enqueue(script("echo there"))); r.State != gitlab.Success || !strings.Contains(r.Log, "new") {
			t.Errorf("%s\n%s", r.State, r.Log)
		}
	}
	if s := w.manager.State().Entries[0].Machines; s == nil || s.Used < 2 {
		t.Errorf("the status of the machines is %+v", s)
	}
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, job := range []*gitlabtest.Job{first, second} {
		if r := w.result(job); r.State != gitlab.Success || !strings.Contains(r.Log, "whole\n") {
			t.Errorf("%s %s\n%s", r.State, r.FailureReason, r.Log)
		}
	}
	var last []*gitlabtest.Job
	for range 2 {
		last = append(last, w.server.Enqueue(script("echo there")))
	}
	for _, job := range last {
		if r := w.result(job); r.State != gitlab.Success || strings.Contains(r.Log, "goes") {
			t.Errorf("%s\n%s", r.State, r.Log)
		}
	}
}

func TestAChangedPlaceTakesEffectOnMachines(t *testing.T) {
	t.Parallel()
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.hosts = []hosts.Host{{Name: "here", Slots: 2, Access: provider.Access{Protocol: provider.Local}}}
	c := w.configure("concurrent = 8\ncheck_interval = 1", provided+"[runners.docker]\nimage = \"one\"")
	o := w.options(c, program)
	open, images := o.Open, make(chan string, 8)
	o.Open = func(ctx context.Context, r *config.Runner, level executor.Level, setup executor.Setup) (executor.Executor, error) {
		images <- r.Docker.Image
		return open(ctx, r, level, setup)
	}
	w.run(o)
	ran := func() {
		t.Helper()
		if r := w.result(w.server.Enqueue(script("true"))); r.State != gitlab.Success {
			t.Errorf("%s\n%s", r.State, r.Log)
		}
	}
	ran()
	ran()
	r := c.Runners[0]
	r.Docker = &config.Docker{Image: "two"}
	w.reload(c, r)
	ran()
	if n := len(images); n != 2 {
		t.Fatalf("%d levels were opened", n)
	}
	if first, second := <-images, <-images; first != "one" || second != "two" {
		t.Errorf("levels were opened for %s and %s", first, second)
	}
}

func TestAJobThatNoMachineIsEnoughForDoesNotHoldUpOthers(t *testing.T) {
	w := newWorld(t)
	w.hosts = []hosts.Host{{Name: "small", Slots: 2, Access: provider.Access{Protocol: provider.Local}, Has: provider.Needs{CPUs: 2}}}
	large := script("echo there")
	large.Variables = append(large.Variables, gitlab.Variable{Key: "RUNG_NEEDS_CPUS", Value: "4"})
	waiting := w.server.Enqueue(large)
	w.start(w.configure("concurrent = 2\ncheck_interval = 1", strings.Replace(provided, "1m", "5s", 1)+"[runners.provider.allowed_needs]\ncpus = 8\n"))
	if err := waiting.WaitLog(t.Context(), "Waiting for a machine: no machine of the list has what is needed"); err != nil {
		t.Fatal(err)
	}
	if r := w.result(w.server.Enqueue(script("echo there"))); r.State != gitlab.Success {
		t.Errorf("%s\n%s", r.State, r.Log)
	}
	if r := w.result(waiting); r.State != gitlab.Failed || !strings.Contains(r.Log, "no machine was ready within 5s (runners.provider.acquire_timeout)") {
		t.Errorf("%s\n%s", r.State, r.Log)
	}
}

func TestAJobEndsWithItsMachine(t *testing.T) {
	w := newWorld(t)
	world := &fake.World{}
	w.others = fake.New(fake.Options{World: world, Room: 1}, provider.Setup{})
	job := w.server.Enqueue(script("echo begun; sleep 600"))
	w.start(w.configure("concurrent = 1\ncheck_interval = 1", provided))
	if err := job.WaitLog(t.Context(), "begun"); err != nil {
		t.Fatal(err)
	}
	world.Kill(1)
	r := w.result(job)
	if r.FailureReason != "runner_system_failure" || !strings.Contains(r.Log, "the machine machine-1 is gone") {
		t.Errorf("%s\n%s", r.FailureReason, r.Log)
	}
}

func TestMachinesOfAJobsOwnAreAsGoodAsInstances(t *testing.T) {
	for fresh, want := range map[bool]gitlab.State{true: gitlab.Success, false: gitlab.Failed} {
		w := newWorld(t)
		w.others = fake.New(fake.Options{Room: 1, Machine: func(_ int, m *provider.Machine) { m.Fresh, m.Level = fresh, executor.None }}, provider.Setup{})
		job := w.server.Enqueue(script("echo there"))
		w.start(w.configure("concurrent = 1\ncheck_interval = 1", provided+"[runners.isolation]\nminimum = \"instance\"\ndefault = \"instance\"\n"))
		if r := w.result(job); r.State != want {
			t.Errorf("fresh %t: %s %s\n%s", fresh, r.State, r.FailureReason, r.Log)
		}
	}
}

func TestACancelledJobDoesNotWaitForItsMachine(t *testing.T) {
	w := newWorld(t)
	var making atomic.Bool
	w.others = fake.New(fake.Options{Room: 1, Before: func(ctx context.Context, c fake.Call) error {
		if c.Name == "Make" {
			making.Store(true)
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return nil
	}}, provider.Setup{})
	job := w.server.Enqueue(script("echo there"))
	w.start(w.configure("concurrent = 1\ncheck_interval = 1", provided))
	for until := time.Now().Add(time.Minute); !making.Load() && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
	}
	job.Cancel()
	if r := w.result(job); r.State == gitlab.Success {
		t.Errorf("%s\n%s", r.State, r.Log)
	}
}
