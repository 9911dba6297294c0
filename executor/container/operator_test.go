package container_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/steps/containers"
)

// given is a job of an operator's level, with a service beside it that sleeps.
func given(t *testing.T, change func(o *container.Options, j *executor.Job)) (job executor.Environment, said *lines) {
	t.Helper()
	o := options(t.TempDir())
	j := job1("given")
	change(&o.Options, j)
	return open(t, o, j)
}

func job1(id string) *executor.Job {
	j := job(id)
	j.Services = []containers.Service{{Image: containers.Image{Name: enginetest.Image, PullPolicies: []string{container.Never}}, Command: []string{"sleep", "600"}, Aliases: []string{"beside"}}}
	return j
}

func TestWhatTheOperatorGivesIsInTheJobsContainer(t *testing.T) {
	enginetest.Busybox(t)
	machine := func(change func(*engine.Machine)) func(*container.Options, *executor.Job) {
		return func(o *container.Options, _ *executor.Job) { change(&o.Job) }
	}
	for name, c := range map[string]struct {
		change func(*container.Options, *executor.Job)
		script string
		want   string
	}{
		"a limit of each process": {machine(func(m *engine.Machine) { m.Ulimits = []engine.Ulimit{{Name: "core", Soft: 321, Hard: 654}} }),
			"sed -n 's/^Max core file size *\\([0-9]*\\) *\\([0-9]*\\).*/\\1 \\2/p' /proc/self/limits", "321 654\n"},
		"a setting of the kernel": {machine(func(m *engine.Machine) { m.Sysctls = map[string]string{"net.ipv4.ip_unprivileged_port_start": "77"} }),
			"cat /proc/sys/net/ipv4/ip_unprivileged_port_start", "77\n"},
		"a folder in memory": {machine(func(m *engine.Machine) { m.Tmpfs = map[string]string{"/ram": "rw,size=64k"} }),
			"grep -c ' /ram tmpfs .*size=64k' /proc/mounts", "1\n"},
		"shared memory": {machine(func(m *engine.Machine) { m.ShmSize = 12 << 20 }),
			"grep ' /dev/shm ' /proc/mounts | grep -c size=12288k", "1\n"},
		"a device": {machine(func(m *engine.Machine) {
			m.Devices = []engine.Device{{PathOnHost: "/dev/zero", PathInContainer: "/dev/nothing", CgroupPermissions: "r"}}
		}), "head -c 3 /dev/nothing | od -An -tx1", " 00 00 00\n"},
		"capabilities that are taken": {machine(func(m *engine.Machine) { m.CapDrop = []string{"ALL"} }),
			"grep CapBnd /proc/self/status", "CapBnd:\t0000000000000000\n"},
		"a capability that is added": {machine(func(m *engine.Machine) { m.CapDrop, m.CapAdd = []string{"ALL"}, []string{"SYS_TIME"} }),
			"grep CapBnd /proc/self/status", "CapBnd:\t0000000002000000\n"},
		"groups of its user": {func(o *container.Options, j *executor.Job) {
			o.Job.GroupAdd, j.Image.User = []string{"4321"}, "worker"
		}, "id -G", "1235 1300 4321\n"},
		"no new privileges": {machine(func(m *engine.Machine) { m.SecurityOpt = []string{"no-new-privileges"} }),
			"grep NoNewPrivs /proc/self/status", "NoNewPrivs:\t1\n"},
		"name servers": {machine(func(m *engine.Machine) { m.DNS, m.DNSSearch = []string{"192.0.2.53"}, []string{"corp.example"} }),
			"grep search /etc/resolv.conf", "search corp.example\n"},
		"name servers of the machine's network": {func(o *container.Options, _ *executor.Job) {
			o.Job.DNS, o.Network.Mode = []string{"192.0.2.53"}, "bridge"
		}, "grep nameserver /etc/resolv.conf", "nameserver 192.0.2.53\n"},
		"names of other machines": {machine(func(m *engine.Machine) { m.ExtraHosts = []string{"registry.corp:192.0.2.7"} }),
			"grep registry.corp /etc/hosts", "192.0.2.7\tregistry.corp\n"},
		"a name of its own": {func(o *container.Options, _ *executor.Job) { o.Network.Hostname = "builder" },
			"hostname", "builder\n"},
		"a hardware address": {func(o *container.Options, _ *executor.Job) { o.Network.MACAddress = "02:42:ac:11:65:43" },
			"cat /sys/class/net/eth0/address", "02:42:ac:11:65:43\n"},
		"the largest packet": {func(o *container.Options, _ *executor.Job) { o.Network.MTU = 1400 },
			"cat /sys/class/net/eth0/mtu", "1400\n"},
		"processes of the machine": {machine(func(m *engine.Machine) { m.PidMode = "host" }),
			"[ $(tr '\\0' ' ' </proc/1/cmdline | grep -c /opt/rung) = 0 ] && echo others", "others\n"},
		"no rights for another image": {func(o *container.Options, _ *executor.Job) {
			o.Privileged = container.Privilege{On: true, Images: []string{"docker:*"}}
		}, "[ -e /dev/kmsg ] || echo usual", "usual\n"},
		"the network of the machine": {func(o *container.Options, _ *executor.Job) { o.Network.Mode = "host" },
			"grep beside /etc/hosts", "127.0.0.1\tbeside\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, said := given(t, c.change)
			if got := sh(t, env, c.script); got != c.want {
				t.Errorf("%q, want %q\n%s", got, c.want, said)
			}
		})
	}
}

func TestServicesHaveWhatTheOperatorGivesThem(t *testing.T) {
	enginetest.Busybox(t)
	c := enginetest.Client(t)
	dir := t.TempDir()
	o := options(dir)
	o.Services.Tmpfs = map[string]string{"/ram": "rw"}
	o.ServiceDevices = map[string][]engine.Device{
		"rung-test-*:1": {{PathOnHost: "/dev/zero", PathInContainer: "/dev/mine", CgroupPermissions: "r"}},
		"other:*":       {{PathOnHost: "/dev/zero", PathInContainer: "/dev/others", CgroupPermissions: "r"}},
	}
	o.Job.CapAdd = []string{"SYS_TIME"}
	o.ContainerLabels = map[string]string{"team": "t-$TEAM", "rung.environment": "forged"}
	o.Job.LogConfig = &engine.LogConfig{Config: map[string]string{"max-size": "1m"}}
	j := job1("services")
	j.Resources.Parent, j.ServiceResources.Parent = "/rung-test-jobs", "/rung-test-services"
	j.Variables = map[string]string{"TEAM": "a"}
	env, _ := open(t, o, j)
	found, err := c.ContainerInspect(t.Context(), env.Layout().Name+"-service-1", client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	host := found.Container.HostConfig
	if host.Tmpfs["/ram"] != "rw" || len(host.CapAdd) > 0 {
		t.Errorf("%+v", host)
	}
	if host.CgroupParent != "/rung-test-services" {
		t.Errorf("it is in the control group %q", host.CgroupParent)
	}
	if d := host.Devices; len(d) != 1 || d[0].PathInContainer != "/dev/mine" {
		t.Errorf("devices %+v", d)
	}
	if l := found.Container.Config.Labels; l["team"] != "t-a" || l["rung.environment"] != env.Layout().Name {
		t.Errorf("labels %v", l)
	}
	found, err = c.ContainerInspect(t.Context(), env.Layout().Name, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if host := found.Container.HostConfig; len(host.CapAdd) != 1 || host.CgroupParent != "/rung-test-jobs" || host.LogConfig.Config["max-size"] != "1m" {
		t.Errorf("the job: %+v", host)
	}
}

func TestVolumesOfTheOperator(t *testing.T) {
	enginetest.Busybox(t)
	c := enginetest.Client(t)
	t.Run("are folders of the machine", func(t *testing.T) {
		here := t.TempDir()
		if err := os.WriteFile(filepath.Join(here, "file"), []byte("theirs"), 0o644); err != nil {
			t.Fatal(err)
		}
		env, _ := given(t, func(o *container.Options, j *executor.Job) {
			o.Volumes.Binds = []container.Bind{{Source: here, Target: "/shared", Options: "ro"}, {Source: here, Target: "/$WHERE"}}
			j.Variables = map[string]string{"WHERE": "writable"}
		})
		if got := sh(t, env, "cat /shared/file; touch /shared/new 2>/dev/null || echo ' read-only'; touch /writable/new"); got != "theirs read-only\n" {
			t.Errorf("%q", got)
		}
		if _, err := os.Stat(filepath.Join(here, "new")); err != nil {
			t.Error(err)
		}
	})
	t.Run("are volumes of the engine by their names", func(t *testing.T) {
		name := fmt.Sprintf("rung-test-named-%d", os.Getpid())
		t.Cleanup(func() {
			_, _ = c.VolumeRemove(context.Background(), name, client.VolumeRemoveOptions{Force: true})
		})
		for i, want := range []string{"", "first\n"} {
			o := options(t.TempDir())
			o.Volumes.Binds = []container.Bind{{Source: name, Target: "/data"}}
			env, _ := open(t, o, job(fmt.Sprintf("named-%d", i)))
			if got := sh(t, env, "cat /data/x 2>/dev/null; echo first >/data/x"); got != want {
				t.Errorf("job %d: %q", i, got)
			}
			if err := env.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	for name, c := range map[string]struct {
		first, second string // Job.KeepVolumes
		kept          bool
		folder        bool // of the machine
		user          string
	}{
		"without a name are kept for the next job":                       {first: "p1-0", second: "p1-0", kept: true},
		"and for one of another user":                                    {first: "p1-1", second: "p1-1", kept: true, user: "worker"},
		"without a name are kept in a folder":                            {first: "p1-2", second: "p1-2", kept: true, folder: true},
		"without a name are not those of another project":                {first: "p1-3", second: "p2-3"},
		"without a name go with the job where nothing is to be kept":     {},
		"without a name go with the job, and not to a folder, that case": {folder: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t.TempDir())
			o.Volumes.Kept = []string{"/cache", "/deep/er", "/builds"}
			if c.folder {
				o.Volumes.Folder = t.TempDir()
			}
			for i, keep := range []string{c.first, c.second} {
				j := job(fmt.Sprintf("kept-%d", i))
				j.KeepVolumes = keep
				if i == 1 && c.user != "" {
					j.Image.User = c.user
				}
				env, _ := open(t, o, j)
				want := ""
				if i == 1 && c.kept {
					want = "mine"
				}
				if got := sh(t, env, "cat /cache/x /deep/er/x 2>/dev/null; printf mi >/cache/x; printf ne >/deep/er/x; touch /cache/y$(id -u) || id"); got != want {
					t.Errorf("job %d: %q, want %q", i, got, want)
				}
				if err := env.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			all := removeKept(t, c.first, c.second)
			if want := map[bool]int{true: 2}[c.kept && !c.folder]; c.kept && len(all) != want {
				t.Errorf("left: %q", all)
			}
		})
	}
	t.Run("may be the folder of all projects", func(t *testing.T) {
		here := t.TempDir()
		o := options(t.TempDir())
		o.Volumes.Binds = []container.Bind{{Source: here, Target: "/builds"}}
		env, _ := open(t, o, job("bound"))
		if got := sh(t, env, "pwd; touch file"); !strings.HasPrefix(got, "/builds/rung-bound-") {
			t.Errorf("%q", got)
		}
		if found, _ := filepath.Glob(filepath.Join(here, "*", "project", "file")); len(found) != 1 {
			t.Errorf("in the folder: %q", found)
		}
		if err := env.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if found, _ := filepath.Glob(filepath.Join(here, "*")); len(found) > 0 {
			t.Errorf("left: %q", found)
		}
	})
}

// removeKept removes the volumes that were kept, and names them.
func removeKept(t *testing.T, names ...string) (all []string) {
	t.Helper()
	c := enginetest.Client(t)
	for _, name := range names {
		if name == "" {
			continue
		}
		found, err := c.VolumeList(t.Context(), client.VolumeListOptions{Filters: client.Filters{}.Add("label", "rung.volume="+name)})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range found.Items {
			all = append(all, v.Name)
			if _, err := c.VolumeRemove(t.Context(), v.Name, client.VolumeRemoveOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
	return all
}

func TestVolumesThatWouldReplaceTheStepRunnerAreRefused(t *testing.T) {
	for name, change := range map[string]func(*container.Options){
		"in its place": func(o *container.Options) {
			o.Volumes.Binds = []container.Bind{{Source: "/tmp", Target: "/opt/rung/bin"}}
		},
		"above it":   func(o *container.Options) { o.Volumes.Kept = []string{"/opt"} },
		"everywhere": func(o *container.Options) { o.Volumes.Binds = []container.Bind{{Source: "/tmp", Target: "/"}} },
		"by a detour": func(o *container.Options) {
			o.Volumes.Binds = []container.Bind{{Source: "/tmp", Target: "/srv/../opt//rung/"}}
		},
		"in memory":             func(o *container.Options) { o.Job.Tmpfs = map[string]string{"/opt/rung": ""} },
		"at no absolute folder": func(o *container.Options) { o.Volumes.Kept = []string{"cache"} },
	} {
		t.Run(name, func(t *testing.T) {
			o := container.Options{Engine: &container.Engine{Host: "unix:///nowhere"}}
			change(&o)
			if _, err := container.New(t.Context(), executor.Setup{State: t.TempDir()}, o); err == nil {
				t.Error("taken")
			}
		})
	}
}

func TestVariablesOfAJobDecideNoMoreThanWhereAVolumeIs(t *testing.T) {
	enginetest.Host(t)
	for _, value := range []string{"/opt/rung", "/", "/x:/etc", "/x:ro", "relative", ""} {
		o := options(t.TempDir())
		o.Volumes.Binds = []container.Bind{{Source: "/srv", Target: "$WHERE"}}
		j := job("hostile")
		j.Variables = map[string]string{"WHERE": value}
		if _, err := prepare(t, o, j); err == nil || !strings.Contains(err.Error(), "cannot have a volume at") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestANetworkOfTheOperator(t *testing.T) {
	enginetest.Busybox(t)
	c := enginetest.Client(t)
	name := fmt.Sprintf("rung-test-network-%d", os.Getpid())
	made, err := c.NetworkCreate(t.Context(), name, client.NetworkCreateOptions{Driver: "bridge"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = c.NetworkRemove(context.Background(), made.ID, client.NetworkRemoveOptions{})
	})
	one, _ := given(t, func(o *container.Options, _ *executor.Job) { o.Network.Mode = name })
	two, _ := given(t, func(o *container.Options, _ *executor.Job) { o.Network.Mode = name })
	addressOf := func(env executor.Environment) string {
		return strings.TrimSpace(sh(t, env, "ping -c1 -w5 beside | sed -n 's/^PING beside (\\([^)]*\\)).*/\\1/p'"))
	}
	if a, b := addressOf(one), addressOf(two); a == b || a == "" || b == "" {
		t.Errorf("both jobs reach the service of one: %q, %q", a, b)
	}
	alone, _ := given(t, func(o *container.Options, j *executor.Job) { o.Network.Mode, j.Network = "host", executor.NetworkNone })
	if got := sh(t, alone, "ls /sys/class/net | grep -c rung || true"); got != "0\n" {
		t.Errorf("a job that is to reach nothing is on the machine's network: %q", got)
	}
	if err := one.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := c.NetworkInspect(t.Context(), made.ID, client.NetworkInspectOptions{}); err != nil {
		t.Error("the operator's network went with a job:", err)
	}
}

func TestEntrypointsThatTheOperatorKeeps(t *testing.T) {
	enginetest.Busybox(t)
	enginetest.Import(t, enginetest.Client(t), "rung-test/entry:1", []enginetest.File{
		{Name: "bin/busybox", Mode: 0o755, Content: busybox(t)}, {Name: "bin/sh", Link: "busybox"},
		{Name: "entry", Mode: 0o755, Content: []byte("#!/bin/sh\necho the entrypoint has run\nexec \"$@\"\n")},
	}, `ENTRYPOINT ["/entry"]`)
	for _, keep := range []bool{false, true} {
		_, said := given(t, func(o *container.Options, j *executor.Job) {
			o.KeepEntrypoint = keep
			j.Image.Name, j.Image.Entrypoint = "rung-test/entry:1", []string{""}
		})
		if got := strings.Contains(said.String(), "the entrypoint has run"); got != keep {
			t.Errorf("kept %t: %s", keep, said)
		}
		if got := strings.Contains(said.String(), "does not let jobs replace"); got != keep {
			t.Errorf("kept %t: %s", keep, said)
		}
	}
}

func TestImagesByTheirNamesAlone(t *testing.T) {
	enginetest.Busybox(t)
	found, err := enginetest.Client(t).ImageInspect(t.Context(), enginetest.Image)
	if err != nil {
		t.Fatal(err)
	}
	id := found.ID
	for name, c := range map[string]struct {
		image string
		found bool
	}{
		"a name":                  {enginetest.Image, true},
		"the name in full":        {"docker.io/library/" + enginetest.Image, true},
		"an id":                   {id, false},
		"its digits":              {strings.TrimPrefix(id, "sha256:"), false},
		"the beginning of its id": {strings.TrimPrefix(id, "sha256:")[:12], false},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t.TempDir())
			o.NamedImages = true
			j := job("named")
			j.Image.Name = c.image
			e, err := o.open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			env, err := e.Prepare(t.Context(), j, nil)
			if (err == nil) != c.found {
				t.Error(err)
			}
			if err == nil {
				_ = env.Close(t.Context())
			}
		})
	}
}
