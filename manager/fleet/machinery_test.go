package fleet

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/group/builtin"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/manager/config"
)

// entry is the fleet of an entry of a configuration.
func entry(t *testing.T, text string) *config.Machinery {
	t.Helper()
	r := config.Check("config.toml", []byte("[[runners]]\nurl = \"https://gitlab.example.com\"\ntoken = \"glrt-0123456789abcdefghij\"\n"+text), func(string) string { return "" })
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	p := r.Config.Runners[0].Provider
	if p == nil || p.Machinery == nil {
		t.Fatalf("the entry has no fleet: %v", r.Problems)
	}
	return p.Machinery
}

// TestAConfigurationOfDockerMachineIsAFleet has the example of gitlab-runner's documentation.
func TestAConfigurationOfDockerMachineIsAFleet(t *testing.T) {
	t.Parallel()
	m := entry(t, `
  limit = 10
  executor = "docker+machine"
  [runners.docker]
    image = "ruby:3.3"
  [runners.machine]
    IdleCount = 5
    IdleScaleFactor = 1.5
    IdleCountMin = 2
    IdleTime = 600
    MaxBuilds = 100
    MaxGrowthRate = 3
    MachineName = "auto-scale-%s"
    MachineDriver = "amazonec2"
    MachineOptions = ["amazonec2-access-key=XXXX", "amazonec2-region=us-central-1"]
    MachineOptionsWithName = ["amazonec2-tags=Name,%s"]
    [[runners.machine.autoscaling]]
      Periods = ["* * 9-17 * * mon-fri *"]
      IdleCount = 50
      IdleTime = 3600
      Timezone = "UTC"
    [[runners.machine.autoscaling]]
      Periods = ["* * * * * sat,sun *"]
      IdleCount = 0
      IdleTime = 60
      Timezone = "UTC"
`)
	of := poolsOf(m)
	kind, known := builtin.Find(of[0].Plugin)
	text, err := json.Marshal(of[0].PluginConfig)
	if err != nil || !known || len(of) != 1 {
		t.Fatal(err, of)
	}
	if _, err := kind.New(text); err != nil {
		t.Error("the group does not take", string(text), err)
	}
	want := scale.Pool{Name: "default", Slots: 1, MaxInstances: 10, MaxUses: 100, MaxComing: 3}
	if got := kindOf(of[0], m); got != want {
		t.Errorf("the pool is %+v, want %+v", got, want)
	}
	policies, err := m.Machine.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		at         string
		idle, most int
		time       time.Duration
		preemptive bool
	}{
		"a working day": {"2026-03-03T10:00:00Z", 50, 0, time.Hour, true},
		"a night":       {"2026-03-03T23:00:00Z", 2, 5, 10 * time.Minute, true},
		"a weekend":     {"2026-03-07T10:00:00Z", 0, 0, time.Minute, false},
	} {
		at, _ := time.Parse(time.RFC3339, c.at)
		p := policies.At(at)
		if p.IdleCount != c.idle || p.ScaleFactorLimit != c.most || p.IdleTime != c.time || p.Preemptive != c.preemptive {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if m.Fresh() {
		t.Error("a machine for 100 jobs is said to be for one")
	}
}

func TestPoolsTakeWhatTheyDoNotSayFromTheAutoscaler(t *testing.T) {
	t.Parallel()
	m := entry(t, `
  executor = "instance"
  [runners.autoscaler]
    plugin = "aws"
    capacity_per_instance = 4
    max_use_count = 9
    max_instances = 20
    [runners.autoscaler.plugin_config]
      name = "linux"
    [runners.autoscaler.connector_config]
      os = "linux"
      arch = "amd64"
    [runners.autoscaler.scale_throttle]
      limit = -1
      burst = 7
  [[runners.fleet.pools]]
    name = "small"
    cpus = 4
    memory = "16g"
    price = 0.2
    suspended_price = 0.01
    billing_step = "1h"
  [[runners.fleet.pools]]
    name = "arm"
    plugin = "googlecloud"
    arch = "arm64"
    capacity_per_instance = 1
    max_use_count = 1
    max_instances = 2
    spot = true
    boot_timeout = "5m"
  [[runners.fleet.pools]]
    name = "own"
    plugin_config = { name = "arm" }
`)
	of := poolsOf(m)
	if of[0].Plugin != "aws" || of[0].PluginConfig["name"] != "linux" || of[1].Plugin != "googlecloud" || of[1].PluginConfig != nil {
		t.Errorf("the plugins are %+v", of)
	}
	if of[2].Plugin != "aws" || of[2].PluginConfig["name"] != "arm" {
		t.Errorf("a pool with options of its own has %+v", of[2])
	}
	for i, want := range []string{"autoscaler.plugin_config", "fleet.pools[1].plugin_config", "fleet.pools[2].plugin_config"} {
		if from := Sources(m)[i]; from.Table != want {
			t.Errorf("the options of the pool %s are in %s, want %s", from.Pool, from.Table, want)
		}
	}
	small, arm := kindOf(of[0], m), kindOf(of[1], m)
	throttle := scale.Throttle{Limit: -1, Burst: 7}
	if want := (scale.Pool{
		Name: "small", Shape: scale.Shape{CPUs: 4, Memory: 16 << 30, OS: "linux", Arch: "amd64"}, Price: 0.2, SuspendedPrice: 0.01, Billing: scale.Billing{Granularity: time.Hour},
		Slots: 4, MaxUses: 9, MaxInstances: 20, Throttle: throttle,
	}); small != want {
		t.Errorf("small is %+v, want %+v", small, want)
	}
	if want := (scale.Pool{
		Name: "arm", Shape: scale.Shape{OS: "linux", Arch: "arm64"}, Spot: true, Slots: 1, MaxUses: 1, MaxInstances: 2, BootTimeout: 5 * time.Minute, Throttle: throttle,
	}); arm != want {
		t.Errorf("arm is %+v, want %+v", arm, want)
	}
}

func TestVirtualMachinesAreWhereJobsRun(t *testing.T) {
	t.Parallel()
	m := entry(t, `
  executor = "instance"
  [runners.autoscaler]
    plugin = "aws"
    capacity_per_instance = 2
    [runners.autoscaler.connector_config]
      os = "linux"
      arch = "arm64"
    [runners.autoscaler.vm_isolation]
      enabled = true
      nesting_host = "unix:///Users/ec2-user/Library/Application Support/nesting.sock"
      image = "macos-15"
      nesting_config = { image_directory = "/images" }
      [runners.autoscaler.vm_isolation.connector_config]
        os = "darwin"
        username = "ci"
        password = "p4ss"
        timeout = "3m"
`)
	vm := m.Autoscaler.VMIsolation
	if vm.Image != "macos-15" || vm.NestingConfig["image_directory"] != "/images" || vm.Connector.Username != "ci" || vm.Connector.Timeout != 3*time.Minute {
		t.Errorf("the settings are %+v", vm)
	}
	if got := kindOf(poolsOf(m)[0], m); got.Shape.OS != "darwin" || got.Shape.Arch != "arm64" || got.Slots != 2 || !m.Fresh() {
		t.Errorf("the pool is %+v, and its machines are for one job: %v", got, m.Fresh())
	}
}

func TestAnEntryWhoseMachinesCannotBeMadeSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"virtual machines of no image": {"executor = \"instance\"\n[runners.autoscaler]\nplugin = \"local\"\n[runners.autoscaler.vm_isolation]\nenabled = true\n", "vm_isolation] has no image"},
		"no plugin":                    {"executor = \"docker-autoscaler\"\n[runners.autoscaler]\nmax_instances = 1\n", "no plugin"},
		"neither fleet nor provider":   {"executor = \"docker+machine\"\n", "neither"},
	} {
		r := config.Check("config.toml", []byte("[[runners]]\nurl = \"https://gitlab.example.com\"\ntoken = \"glrt-0123456789abcdefghij\"\n"+c.text), func(string) string { return "" })
		if err := r.Err(); err != nil {
			t.Fatal(name, err)
		}
		if _, err := r.Config.Runners[0].Levels(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
