package docker_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/docker"
	"github.com/rungci/rung/manager/policy"
	"github.com/rungci/rung/steps/containers"
)

// read reads an entry with these lines in its [runners.docker].
func read(t *testing.T, lines string) *config.Runner {
	t.Helper()
	text := "[[runners]]\nurl = \"https://gitlab.example.com\"\ntoken = \"t\"\nexecutor = \"docker\"\n[runners.docker]\n" + lines + "\n"
	report := config.Check("config.toml", []byte(text), os.Getenv)
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	return &report.Config.Runners[0]
}

// effect is all that an entry does to the level and to a job that asks for much.
func effect(t *testing.T, r *config.Runner) string {
	t.Helper()
	o, err := docker.Options(r.Docker)
	if err != nil {
		t.Fatal(err)
	}
	job := &executor.Job{Image: &containers.Image{Name: "asked:1", User: "asked", PullPolicies: []string{"always"}}, Services: []containers.Service{{Image: containers.Image{Name: "service:1"}}}}
	refused := ""
	if err := policy.Enforce(r, policy.Request{Job: job}); err != nil {
		refused = err.Error()
	}
	docker.Bound(r.Docker, docker.Slot{Number: 3, Groups: "jobs-${slot}", Keeps: "kept"}, job)
	text, err := json.Marshal([]any{o, docker.Setup(r.Docker, executor.Setup{}).Env, docker.Setup(r.Docker, executor.Setup{}).PullPolicies, job, refused})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// elsewhere are the keys that package payload acts on: what jobs have that ask for nothing.
var elsewhere = []string{"image", "services", "services[].name", "services[].alias", "services[].command", "services[].entrypoint", "services[].environment"}

// TestEveryKeyThatIsUsedHasAnEffect holds the table of keys against this package: a key that nothing acts on must not be called used.
func TestEveryKeyThatIsUsedHasAnEffect(t *testing.T) {
	samples := map[string]string{ // where that of the key's type has no meaning
		"memory_swap": "memory = \"1g\"\nmemory_swap = \"2g\"", "service_memory_swap": "service_memory = \"1g\"\nservice_memory_swap = \"2g\"",
		"cpuset_cpus": `cpuset_cpus = "0-3,6"`, "service_cpuset_cpus": `service_cpuset_cpus = "1"`, "cpuset_mems": `cpuset_mems = "0,1"`, "dns": `dns = ["10.0.0.53"]`,
		"device_cgroup_rules": `device_cgroup_rules = ["c 188:* rmw"]`, "extra_hosts": `extra_hosts = ["db.example.com:10.0.0.5"]`,
		"gpus": `gpus = "all"`, "service_gpus": `service_gpus = "all"`, "devices": `devices = ["/dev/kvm"]`, "ulimit": "[runners.docker.ulimit]\nnofile = \"1:2\"",
		"services_devices": "[runners.docker.services_devices]\n\"a:*\" = [\"/dev/kvm\"]", "cache_dir": `cache_dir = "/srv/caches"`,
		"allowed_pull_policies": `allowed_pull_policies = ["never"]`, "pull_policy": `pull_policy = "never"`, "services_limit": "services_limit = 0",
		"tmpfs": `tmpfs = { "/run" = "" }`, "services_tmpfs": `services_tmpfs = { "/run" = "" }`,
	}
	byType := map[string]string{
		"string": `= "sample"`, "size": `= "1g"`, "cpus": `= "1.5"`, "int": "= 7", "bool": "= true", "seconds": "= 7", "list": `= ["sample"]`, "map": `= { sample = "text" }`,
	}
	none := effect(t, read(t, ""))
	for _, k := range config.Keys() {
		name, ok := strings.CutPrefix(k.Name, "runners[].docker.")
		if !ok || k.Use != config.Used || slices.Contains(elsewhere, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			sample := samples[name]
			if sample == "" {
				sample = name + " " + byType[k.Type]
			}
			baseline := none
			if first, _, two := strings.Cut(sample, "\n"); two && !strings.HasPrefix(first, "[") {
				baseline = effect(t, read(t, first))
			}
			if effect(t, read(t, sample)) == baseline {
				t.Errorf("%s changes nothing", sample)
			}
		})
	}
}

func TestKeysMeanWhatTheyDoInGitLabRunner(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		get    func(container.Options) any
		want   any
	}{
		"a cache": {`volumes = ["/cache"]`, func(o container.Options) any { return o.Volumes.Kept }, []string{"/cache"}},
		"a folder of the host": {`volumes = ["/a:/b:ro"]`, func(o container.Options) any { return o.Volumes.Binds },
			[]container.Bind{{Source: "/a", Target: "/b", Options: "ro"}}},
		"a volume with a name, and several options": {`volumes = ["data:/data:ro,z"]`, func(o container.Options) any { return o.Volumes.Binds },
			[]container.Bind{{Source: "data", Target: "/data", Options: "ro,z"}}},
		"a folder beside the projects": {`volumes = ["gems", "/a:shared"]`, func(o container.Options) any { return []any{o.Volumes.Kept, o.Volumes.Binds} },
			[]any{[]string{"/builds/gems"}, []container.Bind{{Source: "/a", Target: "/builds/shared"}}}},
		"a folder with a variable of the job": {`volumes = ["$CI_CACHE", "/a:/b/$CI_PROJECT_ID"]`, func(o container.Options) any { return []any{o.Volumes.Kept, o.Volumes.Binds} },
			[]any{[]string{"$CI_CACHE"}, []container.Bind{{Source: "/a", Target: "/b/$CI_PROJECT_ID"}}}},
		"a device": {`devices = ["/dev/kvm"]`, func(o container.Options) any { return o.Job.Devices },
			[]engine.Device{{PathOnHost: "/dev/kvm", PathInContainer: "/dev/kvm", CgroupPermissions: "rwm"}}},
		"a device elsewhere": {`devices = ["/dev/ttyUSB0:/dev/tty0:r"]`, func(o container.Options) any { return o.Job.Devices },
			[]engine.Device{{PathOnHost: "/dev/ttyUSB0", PathInContainer: "/dev/tty0", CgroupPermissions: "r"}}},
		"limits of processes": {"[runners.docker.ulimit]\nnofile = \"1024:2048\"\ncore = \"0\"\nmemlock = \"-1\"", func(o container.Options) any { return o.Job.Ulimits },
			[]engine.Ulimit{{Name: "core"}, {Name: "memlock", Soft: -1, Hard: -1}, {Name: "nofile", Soft: 1024, Hard: 2048}}},
		"all graphics processors": {`gpus = "all"`, func(o container.Options) any { return o.Job.DeviceRequests },
			[]engine.DeviceRequest{{Count: -1, Capabilities: [][]string{{"gpu"}}}}},
		"two of them": {`gpus = "2"`, func(o container.Options) any { return o.Job.DeviceRequests }, []engine.DeviceRequest{{Count: 2, Capabilities: [][]string{{"gpu"}}}}},
		"certain ones": {`gpus = "\"device=0,2\",driver=nvidia,\"capabilities=compute,utility\""`, func(o container.Options) any { return o.Job.DeviceRequests },
			[]engine.DeviceRequest{{Driver: "nvidia", DeviceIDs: []string{"0", "2"}, Capabilities: [][]string{{"compute", "utility", "gpu"}}}}},
		"rights of services are those of the job":                   {`privileged = true`, func(o container.Options) any { return o.PrivilegedServices.On }, true},
		"unless they are other ones":                                {"privileged = true\nservices_privileged = false", func(o container.Options) any { return o.PrivilegedServices.On }, false},
		"services have the same name servers":                       {`dns = ["192.0.2.1"]`, func(o container.Options) any { return o.Services.DNS }, []string{"192.0.2.1"}},
		"and not the same capabilities":                             {`cap_add = ["NET_ADMIN"]`, func(o container.Options) any { return o.Services.CapAdd }, []string(nil)},
		"ids of images are no names where a list says which images": {`allowed_images = ["*"]`, func(o container.Options) any { return o.NamedImages }, true},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := docker.Options(read(t, c.config).Docker)
			if diff := cmp.Diff(c.want, c.get(o)); diff != "" || err != nil {
				t.Error(err, diff)
			}
		})
	}
}

func TestWhatCannotBeReadNamesItsKey(t *testing.T) {
	for config, key := range map[string]string{
		`volumes = ["/a:"]`: "volumes", `volumes = ["/a:/b:zz"]`: "volumes", `volumes = ["/a:/b:ro,wr"]`: "volumes", `volumes = ["a/b:/c"]`: "volumes", `volumes = [":/c"]`: "volumes", `devices = ["kvm"]`: "devices", `devices = ["/a:/b:x"]`: "devices", `devices = ["/a:/b:r:w"]`: "devices",
		`gpus = "some"`: "gpus", `gpus = "count=1,device=0"`: "gpus", `service_gpus = "color=red"`: "service_gpus", `memory_swap = "1g"`: "memory_swap",
		"memory = \"2g\"\nmemory_swap = \"1g\"": "memory_swap", "[runners.docker.ulimit]\nnofile = \"2:1\"": "ulimit", "[runners.docker.ulimit]\nnofile = \"many\"": "ulimit",
		`allowed_images = ["["]`: "allowed_images", `allowed_services = ["{a"]`: "allowed_services", `extra_hosts = ["nohost"]`: "extra_hosts", `extra_hosts = ["db:there"]`: "extra_hosts",
		`dns = ["not an ip"]`: "dns", `device_cgroup_rules = ["zzz"]`: "device_cgroup_rules", `cpuset_cpus = "0-"`: "cpuset_cpus", `cpuset_mems = "all"`: "cpuset_mems",
		`allowed_privileged_images = ["a["]`: "allowed_privileged_images", "[runners.docker.services_devices]\n\"{a\" = []": "services_devices", `cache_dir = "caches"`: "cache_dir",
		`volumes = ["/opt/rung/bin"]`: "volumes", `volumes = ["/srv:/"]`: "volumes", `tmpfs = { "/opt" = "" }`: "tmpfs", `services_tmpfs = { "run" = "" }`: "services_tmpfs",
	} {
		_, err := docker.Options(read(t, config).Docker)
		if err == nil || !strings.Contains(err.Error(), "runners.docker."+key+": ") {
			t.Errorf("%s: %v", config, err)
		}
	}
}

func TestWhatEnginesTakeIsTaken(t *testing.T) {
	for _, lines := range []string{
		`extra_hosts = ["db:10.0.0.5", "host.docker.internal:host-gateway", "v6:[2001:db8::1]", "v6:2001:db8::1", "db=10.0.0.5"]`,
		`dns = ["10.0.0.53", "2001:db8::53"]`, `device_cgroup_rules = ["a *:* rwm", "b 7:0 r"]`, `cpuset_cpus = "0"`, `allowed_images = ["registry.example.com/*/*", "ruby:*", "**"]`,
	} {
		if _, err := docker.Options(read(t, lines).Docker); err != nil {
			t.Errorf("%s: %v", lines, err)
		}
	}
}

func TestBounds(t *testing.T) {
	bound := func(lines string, owner docker.Slot) *executor.Job {
		job := &executor.Job{ID: "j", ProjectName: "p", Image: &containers.Image{Name: "a", User: "asked"}}
		docker.Bound(read(t, lines).Docker, owner, job)
		if err := job.Validate(); err != nil {
			t.Error(err)
		}
		return job
	}
	owner := docker.Slot{Keeps: "theirs"}
	if got := bound("", owner).KeepVolumes; got != "theirs" {
		t.Errorf("the volumes %q are kept", got)
	}
	slots := docker.Slot{Number: 3, Groups: "jobs-${slot}.slice"}
	if job := bound(`service_slot_cgroup_template = "services-$slot.slice"`, slots); job.Resources.Parent != "jobs-3.slice" || job.ServiceResources.Parent != "services-3.slice" {
		t.Errorf("groups %q and %q", job.Resources.Parent, job.ServiceResources.Parent)
	}
	if job := bound("", owner); job.Resources.Parent+job.ServiceResources.Parent != "" {
		t.Errorf("groups %q and %q without slots", job.Resources.Parent, job.ServiceResources.Parent)
	}
	if got := bound("disable_cache = true", owner).KeepVolumes; got != "" {
		t.Errorf("volumes %q are kept", got)
	}
	if got := bound("", owner).Image.User; got != "asked" {
		t.Errorf("user %q", got)
	}
	if got := bound(`user = "mine"`, owner).Image.User; got != "mine" {
		t.Errorf("user %q, want the configuration's", got)
	}
	want := executor.Resources{CPU: 1.5, Memory: 1 << 30, Swap: 1 << 29, CPUSet: "0-1"}
	if got := bound("cpus = \"1.5\"\nmemory = \"1g\"\nmemory_swap = \"1536m\"\ncpuset_cpus = \"0-1\"", owner).Resources; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestWhereProjectsAreKept(t *testing.T) {
	for lines, want := range map[string]bool{
		"":                     true,
		`volumes = ["/cache"]`: true, `volumes = ["/builds"]`: true, `volumes = ["/srv:/srv"]`: true,
		`disable_cache = true`:                     false,
		`volumes = ["/srv/builds:/builds"]`:        false,
		`volumes = ["/srv/builds:/builds/:rw"]`:    false,
		`volumes = ["/cache", "builds:/builds:z"]`: false,
	} {
		if got := docker.KeepsProjects(read(t, lines).Docker); got != want {
			t.Errorf("with %s: %t", lines, got)
		}
	}
	if !docker.KeepsProjects(nil) {
		t.Error("without [runners.docker] they are not kept")
	}
}
