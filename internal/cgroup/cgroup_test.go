//go:build linux

package cgroup

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/internal/process"
)

// kernel is a made-up machine: a tree of files, of which the kernel's are made with each group, and the rules of version 2 that keep
// groups from having controllers.
type kernel struct {
	t    *testing.T
	root string
	uid  int
	// given are groups with systemd's mark.
	given []string
}

// files are those of a group with a controller, as the kernel makes them (admin-guide/cgroup-v2.rst, cgroup-v1/).
var files = map[string]map[string]string{
	"2":       {"cgroup.procs": "", "cgroup.subtree_control": "", "cgroup.events": "populated 0\n"},
	"memory":  {"memory.max": "max\n", "memory.swap.max": "max\n", "memory.peak": "0\n", "memory.events": "oom_kill 0\n"},
	"pids":    {"pids.max": "max\n", "pids.events": "max 0\n"},
	"cpu":     {"cpu.max": "max 100000\n", "cpu.stat": "nr_throttled 0\n"},
	"cpuset":  {"cpuset.cpus": "", "cpuset.cpus.effective": "0-3\n"},
	"io":      {"io.max": ""},
	"1":       {"cgroup.procs": "", "tasks": ""},
	"memory1": {"memory.limit_in_bytes": "9223372036854771712\n", "memory.memsw.limit_in_bytes": "9223372036854771712\n", "memory.max_usage_in_bytes": "0\n", "memory.oom_control": "oom_kill 0\n"},
	"pids1":   {"pids.max": "max\n", "pids.events": "max 0\n"},
	"cpu1":    {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n", "cpu.stat": "nr_throttled 0\n"},
	"cpuset1": {"cpuset.cpus": "", "cpuset.mems": ""}, "freezer1": {"freezer.state": "THAWED\n"},
}

// newKernel makes a machine with groups, each after those above it.
func newKernel(t *testing.T, uid int, mounts, own string, groups ...string) *kernel {
	t.Helper()
	k := &kernel{t: t, root: t.TempDir(), uid: uid}
	k.put("/proc/self/mountinfo", mounts)
	k.put("/proc/self/cgroup", own)
	k.put("/sys/fs/other", "")
	for _, dir := range groups {
		if strings.Count(dir, "/") > strings.Count(mountPoint, "/") && !slices.Contains(groups, mountPoint) { // a hierarchy of version 1
			k.put(mountPoint+"/other", "")
		}
		if err := k.mkdir(k.root + dir); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func (k *kernel) put(file, text string) {
	k.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(k.root+file), 0o755), os.WriteFile(k.root+file, []byte(text), 0o644)); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kernel) get(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		k.t.Error(err)
	}
	return strings.TrimSpace(string(text))
}

const mountPoint = "/sys/fs/cgroup"

// mkdir makes a group with the kernel's files.
func (k *kernel) mkdir(dir string) error {
	name := strings.TrimPrefix(dir, k.root)
	controller, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(name, mountPoint), "/"), "/")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	kinds := []string{"1", controller + "1"}
	if _, separate := files[controller+"1"]; !separate || controller == "" {
		kinds = []string{"2"}
		given := "cpuset cpu io memory pids" // of the root
		if name != mountPoint {
			given = strings.ReplaceAll(k.get(filepath.Join(filepath.Dir(dir), "cgroup.subtree_control")), "+", "")
			kinds = append(kinds, strings.Fields(given)...)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte(given+"\n"), 0o644); err != nil {
			return err
		}
	}
	for _, kind := range kinds {
		for file, text := range files[kind] {
			if file == "cpuset.cpus" && dir == k.root+mountPoint+"/cpuset" {
				text = "0-3\n"
			}
			if file == "cpuset.mems" && dir == k.root+mountPoint+"/cpuset" {
				text = "0\n"
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes, but gives no controllers to groups in one that has processes, and moves processes.
func (k *kernel) write(file, text string) error {
	dir, name := filepath.Split(file)
	switch name {
	case "cgroup.subtree_control":
		if filepath.Clean(dir) != k.root+mountPoint && k.get(dir+"cgroup.procs") != "" {
			return &fs.PathError{Op: "write", Path: file, Err: syscall.EBUSY}
		}
	case "cgroup.procs":
		above := filepath.Join(dir, "..", "cgroup.procs")
		rest := slices.DeleteFunc(strings.Fields(k.get(above)), func(pid string) bool { return pid == text })
		if err := os.WriteFile(above, []byte(strings.Join(rest, "\n")), 0o644); err != nil {
			return err
		}
		text = k.get(file) + "\n" + text
	}
	return write(file, text)
}

func (k *kernel) open() (*Tree, error) {
	return open(&system{
		root: k.root, uid: k.uid, mkdir: k.mkdir, write: k.write,
		delegated: func(dir string) bool { return slices.Contains(k.given, strings.TrimPrefix(dir, k.root)) },
	})
}

// What machines mount.
const (
	// pure is version 2 alone, as systemd mounts it.
	pure = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	// separate is version 1, with version 2 beside it for systemd alone ("hybrid").
	separate = `31 24 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw
32 31 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 31 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
34 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct
35 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
36 31 0:32 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
37 31 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`
	hybridGroups = "6:memory:/\n5:pids:/\n4:cpu,cpuacct:/\n3:cpuset:/\n2:freezer:/\n1:name=systemd:/\n0::/\n"
)

var hybridFolders = []string{mountPoint + "/memory", mountPoint + "/pids", mountPoint + "/cpu", mountPoint + "/cpuset", mountPoint + "/freezer"}

func TestWhereGroupsAreMade(t *testing.T) {
	const scope = mountPoint + "/user.slice/run-1.scope"
	session := []string{mountPoint, mountPoint + "/user.slice", scope}
	for name, c := range map[string]struct {
		uid         int
		mounts, own string
		groups      []string
		given       []string
		prepare     func(*kernel)
		version     int
		dir         string // of the group "job"
		slot        string // of one in the slot "a/b"
		moved       string // group whose processes were moved
		problem     string
	}{
		"root, version 2": {
			mounts: pure, own: "0::/user.slice/run-1.scope\n", groups: session, version: 2,
			prepare: func(k *kernel) { k.put(scope+"/cgroup.procs", "1\n2\n") },
			dir:     mountPoint + "/rung/job", slot: mountPoint + "/a/b/job",
		},
		"root, in a unit with Delegate=yes": {
			mounts: pure, own: "0::/user.slice/run-1.scope\n", groups: session, given: []string{scope}, version: 2,
			prepare: func(k *kernel) {
				k.put(scope+"/cgroup.controllers", "cpuset cpu io memory pids\n")
				k.put(scope+"/cgroup.procs", "1\n2\n")
			},
			dir: scope + "/rung/job", slot: mountPoint + "/a/b/job", moved: scope,
		},
		"a user, in a scope with Delegate=yes": {
			uid: 1000, mounts: pure, own: "0::/user.slice/run-1.scope\n", groups: session, version: 2,
			prepare: func(k *kernel) { k.put(scope+"/cgroup.controllers", "cpu memory pids\n") },
			dir:     scope + "/rung/job", slot: scope + "/a/b/job",
		},
		"a user, where systemd gives too little": {
			uid: 1000, mounts: pure, own: "0::/user.slice/run-1.scope\n", groups: session,
			prepare: func(k *kernel) { k.put(scope+"/cgroup.controllers", "memory pids\n") },
			problem: "has no controller cpu; have systemd delegate it: sudo systemctl edit",
		},
		"root, in a container with a group namespace": {
			mounts: pure, own: "0::/\n", groups: []string{mountPoint}, version: 2,
			dir: mountPoint + "/rung/job", slot: mountPoint + "/a/b/job",
		},
		"root, version 1": {
			mounts: separate, own: hybridGroups, groups: hybridFolders, version: 1,
			dir: mountPoint + "/memory/rung/job", slot: mountPoint + "/memory/a/b/job",
		},
		"root, version 1, in a group of its own": {
			mounts: separate, own: strings.Replace(hybridGroups, "memory:/", "memory:/limited", 1), groups: append(slices.Clone(hybridFolders), mountPoint+"/memory/limited"),
			version: 1, dir: mountPoint + "/memory/limited/rung/job", slot: mountPoint + "/memory/a/b/job",
		},
		"version 1 without a controller": {
			mounts: strings.ReplaceAll(separate, "rw,memory", "rw,other"), own: hybridGroups, groups: hybridFolders,
			problem: "no control groups for memory are mounted on this machine; mount them: mount -t cgroup2",
		},
		"nothing is mounted": {mounts: "24 1 0:23 / / rw - ext4 /dev/sda rw\n", own: "0::/\n", problem: "are mounted on this machine; mount them"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t, c.uid, c.mounts, c.own, c.groups...)
			k.given = c.given
			if c.prepare != nil {
				c.prepare(k)
			}
			tree, err := k.open()
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tree.Version != c.version {
				t.Errorf("it is version %d", tree.Version)
			}
			for slot, want := range map[string]string{"": c.dir, "a/b": c.slot} {
				g, err := tree.Group(slot, "job")
				if err != nil {
					t.Fatal(err)
				}
				if err := g.Make(); err != nil {
					t.Fatal(err)
				}
				if got := g.dir(memory); got != k.root+want {
					t.Errorf("slot %q: it is %s, not %s", slot, strings.TrimPrefix(got, k.root), want)
				}
				if _, err := os.Stat(filepath.Join(g.dir(pids), "pids.max")); err != nil {
					t.Errorf("slot %q: it has no controllers: %v", slot, err)
				}
				if c.version == 1 && k.get(g.file(cpuset, "cpus")) != "0-3" {
					t.Errorf("slot %q: no process can be in its cpuset", slot)
				}
			}
			if c.moved != "" && (k.get(k.root+c.moved+"/cgroup.procs") != "" || k.get(k.root+c.moved+"/"+selfFolder+"/cgroup.procs") == "") {
				t.Error("processes are where groups with controllers are")
			}
		})
	}
}

func TestAUserWithoutAGroupIsToldWhatToDo(t *testing.T) {
	k := newKernel(t, 1000, pure, "0::/\n", mountPoint)
	if err := os.Remove(k.root + mountPoint + "/cgroup.subtree_control"); err != nil { // as good as one that cannot be written
		t.Fatal(err)
	}
	_, err := k.open()
	if err == nil || !strings.Contains(err.Error(), "user 1000 may not make control groups") || !strings.Contains(err.Error(), "systemd-run --user --scope -p Delegate=yes") {
		t.Errorf("the error is %v", err)
	}
}

func TestLimitsAreWrittenAsEachVersionHasThem(t *testing.T) {
	for name, c := range map[string]struct {
		limits  Limits
		v2, v1  map[string]string // by controller/file
		lacksV1 string
		problem string
	}{
		"none":       {v2: map[string]string{"memory/max": "max", "pids/max": "max", "cpu/max": "max 100000"}, v1: map[string]string{"cpu/cfs_quota_us": "-1", "memory/limit_in_bytes": "9223372036854771712"}},
		"memory":     {limits: Limits{Memory: 1 << 20}, v2: map[string]string{"memory/max": "1048576", "memory/swap.max": "0"}, v1: map[string]string{"memory/limit_in_bytes": "1048576", "memory/memsw.limit_in_bytes": "1048576"}},
		"swap space": {limits: Limits{Memory: 1 << 20, Swap: 4096}, v2: map[string]string{"memory/swap.max": "4096"}, v1: map[string]string{"memory/memsw.limit_in_bytes": "1052672"}},
		"processes":  {limits: Limits{PIDs: 7}, v2: map[string]string{"pids/max": "7"}, v1: map[string]string{"pids/max": "7"}},
		"processors": {limits: Limits{CPU: 1.5}, v2: map[string]string{"cpu/max": "150000 100000"}, v1: map[string]string{"cpu/cfs_quota_us": "150000", "cpu/cfs_period_us": "100000"}},
		"a little":   {limits: Limits{CPU: 0.001}, v2: map[string]string{"cpu/max": "1000 100000"}, v1: map[string]string{"cpu/cfs_quota_us": "1000"}},
		"which":      {limits: Limits{CPUSet: "0,2-3"}, v2: map[string]string{"cpuset/cpus": "0,2-3"}, v1: map[string]string{"cpuset/cpus": "0,2-3"}},
		"too many":   {limits: Limits{CPUSet: "2-9"}, problem: `processor 4 of "2-9" is not available here; those that are: 0-3`},
		"disk":       {limits: Limits{IO: IO{Disk: "8:0", Read: 5, Write: 6}}, v2: map[string]string{"io/max": "8:0 rbps=5 wbps=6"}, lacksV1: "reading and writing"},
	} {
		t.Run(name, func(t *testing.T) {
			for version, k := range map[int]*kernel{2: newKernel(t, 0, pure, "0::/\n", mountPoint), 1: newKernel(t, 0, separate, hybridGroups, hybridFolders...)} {
				tree, err := k.open()
				if err != nil {
					t.Fatal(err)
				}
				if lacks := strings.Join(tree.Lacks(c.limits), ", "); version == 1 && c.lacksV1 != "" {
					if lacks != c.lacksV1 {
						t.Errorf("version %d lacks %q", version, lacks)
					}
					continue
				} else if lacks != "" {
					t.Errorf("version %d lacks %q", version, lacks)
				}
				g, err := tree.Group("", "job")
				if err != nil {
					t.Fatal(err)
				}
				if err := g.Make(); err != nil {
					t.Fatal(err)
				}
				if err := g.Limit(c.limits); c.problem != "" {
					if err == nil || err.Error() != c.problem {
						t.Errorf("version %d: the error is %v", version, err)
					}
					continue
				} else if err != nil {
					t.Fatal(err)
				}
				want := c.v2
				if version == 1 {
					want = c.v1
				}
				for file, text := range want {
					controller, name, _ := strings.Cut(file, "/")
					if got := k.get(g.file(controller, name)); got != text {
						t.Errorf("version %d: %s is %q, not %q", version, file, got, text)
					}
				}
			}
		})
	}
}

func TestWhatWasUsedIsRead(t *testing.T) {
	for version, c := range map[int]struct {
		kernel *kernel
		files  map[string]string
	}{
		2: {newKernel(t, 0, pure, "0::/\n", mountPoint), map[string]string{
			"memory/peak": "99614720\n", "memory/max": "100663296\n", "memory/events": "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n",
			"cpu/stat": "usage_usec 5\nnr_periods 7\nnr_throttled 3\n", "pids/events": "max 4\n",
		}},
		1: {newKernel(t, 0, separate, hybridGroups, hybridFolders...), map[string]string{
			"memory/max_usage_in_bytes": "99614720\n", "memory/limit_in_bytes": "100663296\n", "memory/oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
			"cpu/stat": "nr_periods 7\nnr_throttled 3\nthrottled_time 5\n", "pids/events": "max 4\n",
		}},
	} {
		tree, err := c.kernel.open()
		if err != nil {
			t.Fatal(err)
		}
		g, err := tree.Group("", "job")
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Make(); err != nil {
			t.Fatal(err)
		}
		if used := g.Usage(); used != (Usage{}) {
			t.Errorf("version %d: of nothing it is %+v", version, used)
		}
		for file, text := range c.files {
			controller, name, _ := strings.Cut(file, "/")
			c.kernel.put(strings.TrimPrefix(g.file(controller, name), c.kernel.root), text)
		}
		if used, want := g.Usage(), (Usage{Peak: 95 << 20, Memory: 96 << 20, Kills: 1, Throttled: 3, Refused: 4}); used != want {
			t.Errorf("version %d: it is %+v, not %+v", version, used, want)
		}
		if words := g.Usage().Words(); words != ": the job used 95 MiB, and may use 96 MiB" {
			t.Errorf("version %d: in words it is %q", version, words)
		}
	}
}

func TestSlotTemplates(t *testing.T) {
	for _, c := range []struct {
		template   string
		slot       int
		want, fail string
	}{
		{"", 3, "gitlab-runner/slot-3", ""},
		{"gitlab-runner/slot-${slot}", 0, "gitlab-runner/slot-0", ""},
		{"/a/$slot", 7, "a/7", ""},
		{"runner-slot-${slot}.slice", 5, "runner.slice/runner-slot.slice/runner-slot-5.slice", ""},
		{"runner.slice/x-${slot}.slice", 5, "runner.slice/x-5.slice", ""},
		{"shared", 5, "shared", ""},
		{"${slot}/${user}", 1, "", "$user is unknown; write ${slot}"},
		{"../${slot}", 1, "", "does not name a control group"},
		{"a/../${slot}", 1, "", "does not name a control group"},
		{"a", -1, "", "there is no slot -1"},
	} {
		got, err := Slot(c.template, c.slot)
		if c.fail != "" {
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%q: the error is %v", c.template, err)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%q: it is %q, %v", c.template, got, err)
		}
	}
}

// TestAProcessStartsStraightIntoAGroupOfVersion2 needs a hierarchy of version 2, with or without controllers: that of systemd beside version 1
// will do.
func TestAProcessStartsStraightIntoAGroupOfVersion2(t *testing.T) {
	mounts, _, err := (&system{}).hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	m, found := mounts[unified]
	dir := filepath.Join(m.dir, "rung-test-v2-"+rand.Text())
	if !found || os.Mkdir(dir, 0o755) != nil {
		enginetest.Skip(t, "control groups of version 2, and root")
	}
	g := &Group{Dirs: map[string]string{unified: dir}}
	defer func() { _ = g.Remove(context.Background()) }()
	var out bytes.Buffer
	begun := make(chan int, 1)
	ended := make(chan error, 1)
	go func() {
		_, err := process.Run(t.Context(), nil, process.Spec{
			Args: []string{"/bin/sh", "-c", `cat /proc/self/cgroup; mkdir "$0/below"; sh -c 'echo $$ >"$0/below/cgroup.procs"; exec sleep 60' "$0" & setsid sleep 60 & wait`, dir},
			Env:  []string{"PATH=" + os.Getenv("PATH")}, Stdout: &out, Stderr: &out, Group: dir, Started: func(pid int) { begun <- pid },
		})
		ended <- err
	}()
	if pid := <-begun; !slices.Contains(g.processes(), pid) {
		t.Errorf("process %d is not in it from the start: %v", pid, g.processes())
	}
	for below := (&Group{Dirs: map[string]string{unified: dir + "/below"}}); len(below.processes()) == 0 || len(g.processes()) < 3; {
		time.Sleep(time.Millisecond)
	}
	if err := errors.Join(g.Remove(t.Context()), g.Remove(t.Context())); err != nil {
		t.Error(err)
	}
	<-ended
	if !strings.Contains(out.String(), "0::/"+filepath.Base(dir)+"\n") {
		t.Errorf("it was elsewhere:\n%s", out.String())
	}
	if g.Exists() {
		t.Error("it is still there")
	}
}

// TestGroupsComeAndGoAtOnce is about our group above them, which goes with the last one while another is made.
func TestGroupsComeAndGoAtOnce(t *testing.T) {
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for range 25 {
				tree, err := Open()
				if err != nil {
					return
				}
				g, err := tree.Group("", fmt.Sprintf("rung-test-%d-%d", os.Getpid(), n))
				if err == nil {
					err = g.Make()
				}
				if err == nil {
					args := g.Launch([]string{"/bin/true"})
					err = exec.Command(args[0], args[1:]...).Run()
				}
				if err = errors.Join(err, g.Remove(t.Context())); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestAGroupOfThisMachineHoldsKillsAndGoes(t *testing.T) {
	tree, err := Open()
	if err != nil {
		t.Log(err)
		enginetest.Skip(t, "control groups")
	}
	g, err := tree.Group("", "rung-test-"+filepath.Base(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Make(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Remove(context.Background()) }()
	if err := g.Limit(Limits{Memory: 64 << 20, PIDs: 20, CPU: 0.5, CPUSet: "0"}); err != nil {
		t.Fatal(err)
	}
	args := g.Launch([]string{"/bin/sh", "-c", `trap '' TERM; n=0; while [ $n -lt 9 ]; do setsid sleep 60 & n=$((n+1)); done; echo on; wait`})
	command := exec.Command(args[0], args[1:]...)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if n := len(g.processes()); n != 10 {
		t.Errorf("%d processes are in it, not 10", n)
	}
	if err := errors.Join(g.Remove(t.Context()), g.Remove(t.Context())); err != nil {
		t.Error(err)
	}
	_ = command.Wait()
	if g.Exists() {
		t.Error("it is still there")
	}
}
