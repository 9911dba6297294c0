// Package docker says what [runners.docker] of a configuration means on the level of containers.
//
//	config.Docker ──> Options  what the operator gives all jobs of the entry   ──> container.New
//	              ──> Bound    what one job may use, and whose volumes it has  ──> Executor.Prepare
//
// Keys that say what jobs may ask for are package policy's; the image, services and pull policies that jobs have without asking are
// package payload's.
//
// Source: executors/docker in gitlab-runner 19.4, and its documentation of the keys.
package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/executor/sandbox"
	"github.com/rungci/rung/internal/glob"
	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/manager/config"
)

// builds is the folder in containers that relative volumes are in.
const builds = "/builds"

// Open makes the level of an entry's containers; d may be nil.
func Open(ctx context.Context, d *config.Docker, setup executor.Setup) (*container.Executor, error) {
	o, err := Options(d)
	if err != nil {
		return nil, err
	}
	return container.New(ctx, Setup(d, setup), o)
}

// OpenSandbox makes the level of an entry's sandboxes. They are made in an engine where the entry asks for what only an engine has, such as the
// volumes of its machine.
func OpenSandbox(ctx context.Context, d *config.Docker, setup executor.Setup) (executor.Executor, error) {
	o, err := Options(d)
	if err != nil {
		return nil, err
	}
	way, rest := sandbox.Way(""), o
	rest.ServiceWait, rest.Volumes.Kept, rest.Volumes.Folder, rest.NamedImages = 0, nil, "", false // sandboxes without an engine know these
	if !reflect.DeepEqual(rest, container.Options{}) {
		way = sandbox.ThroughEngine
	}
	return sandbox.New(ctx, Setup(d, setup), sandbox.Options{Container: o, Way: way})
}

// Setup adds to what a level is made with where the engine is, and when it pulls.
func Setup(d *config.Docker, setup executor.Setup) executor.Setup {
	if d == nil {
		return setup
	}
	setup.PullPolicies = d.PullPolicy
	if d.Host != "" {
		setup.EngineFrom = "runners.docker.host"
	}
	setup.Env = slices.Clone(setup.Env)
	for name, value := range map[string]string{"DOCKER_HOST": d.Host, "DOCKER_CERT_PATH": d.TLSCertPath, "DOCKER_TLS_VERIFY": map[bool]string{true: "1"}[d.TLSVerify]} {
		if value != "" {
			setup.Env = append(setup.Env, name+"="+value)
		}
	}
	return setup
}

// Options are those of the level. An error is made of *config.KeyError.
func Options(d *config.Docker) (container.Options, error) {
	if d == nil {
		return container.Options{}, nil
	}
	o := container.Options{
		Runtime: d.Runtime, ServiceWait: d.WaitForServicesTimeout, KeepEntrypoint: d.DisableEntrypointOverwrite,
		Privileged:         container.Privilege{On: d.Privileged, Images: d.AllowedPrivilegedImages},
		PrivilegedServices: container.Privilege{On: d.Privileged, Images: d.AllowedPrivilegedServices},
		Network:            container.Network{Mode: d.NetworkMode, IPv6: d.EnableIPv6, MTU: d.NetworkMTU, Hostname: d.Hostname, MACAddress: d.MACAddress},
		ContainerLabels:    d.ContainerLabels,
		NamedImages:        len(d.AllowedImages)+len(d.AllowedServices)+len(d.AllowedPrivilegedImages)+len(d.AllowedPrivilegedServices) > 0,
	}
	if d.ServicesPrivileged != nil {
		o.PrivilegedServices.On = *d.ServicesPrivileged
	}
	r := &reader{}
	both := engine.Machine{
		Names: engine.Names{DNS: d.DNS, DNSSearch: d.DNSSearch, ExtraHosts: d.ExtraHosts}, Namespaces: engine.Namespaces{UsernsMode: d.UsernsMode}, ShmSize: d.ShmSize,
	}
	if len(d.LogOptions) > 0 {
		both.LogConfig = &engine.LogConfig{Config: d.LogOptions}
	}
	o.Job, o.Services = both, both
	o.Job.Rights = engine.Rights{CapAdd: d.CapAdd, CapDrop: d.CapDrop, GroupAdd: d.GroupAdd, SecurityOpt: d.SecurityOpt}
	o.Job.Namespaces = engine.Namespaces{UsernsMode: d.UsernsMode, PidMode: d.PIDMode, IpcMode: d.IPCMode, Sysctls: d.Sysctls}
	o.Job.Hardware = engine.Hardware{Devices: r.devices("devices", d.Devices), DeviceRequests: r.gpus("gpus", d.GPUs), DeviceCgroupRules: d.DeviceCgroupRules}
	o.Job.Shares = engine.Shares{
		MemoryReservation: d.MemoryReservation, CPUShares: d.CPUShares, CpusetMems: d.CPUSetMems, CgroupParent: d.CgroupParent,
		OomKillDisable: d.OOMKillDisable, OomScoreAdj: d.OOMScoreAdjust, Ulimits: r.ulimits("ulimit", d.Ulimit),
	}
	o.Job.Tmpfs = d.Tmpfs
	o.Services.SecurityOpt, o.Services.Tmpfs = d.ServicesSecurityOpt, d.ServicesTmpfs
	o.Services.DeviceRequests = r.gpus("service_gpus", d.ServiceGPUs)
	o.Services.Shares = engine.Shares{MemoryReservation: d.ServiceMemoryReservation, CPUShares: d.ServiceCPUShares, CgroupParent: d.ServiceCgroupParent}
	for pattern, devices := range d.ServicesDevices {
		if o.ServiceDevices == nil {
			o.ServiceDevices = map[string][]engine.Device{}
		}
		r.patterns("services_devices", []string{pattern})
		o.ServiceDevices[pattern] = r.devices("services_devices", devices)
	}
	o.Volumes = r.volumes(d)
	if _, err := o.Volumes.Of(nil); err != nil {
		r.say("volumes", "%v", err)
	}
	for key, all := range map[string]map[string]string{"tmpfs": d.Tmpfs, "services_tmpfs": d.ServicesTmpfs} {
		for _, target := range slices.Sorted(maps.Keys(all)) {
			if err := container.CheckTarget(target); err != nil {
				r.say(key, "%v", err)
			}
		}
	}
	r.patterns("allowed_images", d.AllowedImages)
	r.patterns("allowed_services", d.AllowedServices)
	r.patterns("allowed_privileged_images", d.AllowedPrivilegedImages)
	r.patterns("allowed_privileged_services", d.AllowedPrivilegedServices)
	r.texts("extra_hosts", d.ExtraHosts, isExtraHost, "must be NAME:ADDRESS, as in db.example.com:10.0.0.5, or NAME:host-gateway")
	r.texts("dns", d.DNS, isAddress, "must be an IP address")
	r.texts("device_cgroup_rules", d.DeviceCgroupRules, isDeviceRule, "must be TYPE MAJOR:MINOR ACCESS, as in c 188:* rmw")
	r.texts("cpuset_cpus", []string{d.CPUSetCPUs}, isSet, "must be a list of processors, as in 0-3,6")
	r.texts("service_cpuset_cpus", []string{d.ServiceCPUSetCPUs}, isSet, "must be a list of processors, as in 0-3,6")
	r.texts("cpuset_mems", []string{d.CPUSetMems}, isSet, "must be a list of memory nodes, as in 0,1")
	swap(r, "memory_swap", d.Memory, d.MemorySwap)
	swap(r, "service_memory_swap", d.ServiceMemory, d.ServiceMemorySwap)
	return o, errors.Join(r.wrong...)
}

// swap refuses a limit of memory and swap space together that is below that of memory, or without one, as engines do.
func swap(r *reader, key string, memory, both int64) {
	if both > 0 && (memory == 0 || both < memory) {
		r.say(key, "must be at least the limit of memory, which it includes")
	}
}

// Slot is where a job has its turn.
type Slot struct {
	// Number is that of the slot, and Groups the template of the control group for its jobs; empty is none.
	Number int
	Groups string
	// Keeps names whose volumes the job has, as executor.Job.KeepVolumes; empty keeps none.
	Keeps string
}

// Bound adds what the entry says of each job: what it may use, and whose volumes it keeps. Who the job runs as is for the entry to say first,
// as in gitlab-runner.
func Bound(d *config.Docker, in Slot, what *executor.Job) {
	what.Resources.CPU, what.Resources.Memory, what.Resources.CPUSet = d.CPUs, d.Memory, d.CPUSetCPUs
	what.Resources.Swap = max(0, d.MemorySwap-d.Memory)
	what.ServiceResources.CPU, what.ServiceResources.Memory, what.ServiceResources.CPUSet = d.ServiceCPUs, d.ServiceMemory, d.ServiceCPUSetCPUs
	what.ServiceResources.Swap = max(0, d.ServiceMemorySwap-d.ServiceMemory)
	if in.Groups != "" {
		what.Resources.Parent, what.ServiceResources.Parent = slotGroup(in.Groups, in.Number), slotGroup(d.ServiceSlotCgroupTemplate, in.Number)
	}
	if !d.DisableCache {
		what.KeepVolumes = in.Keeps
	}
	if what.Image != nil && d.User != "" {
		image := *what.Image
		image.User, what.Image = d.User, &image
	}
}

// KeepsProjects reports whether the projects' folder can be kept between jobs: it is none of the engine's machine, which jobs of all projects have, and
// nothing says that no volumes are kept. d may be nil.
func KeepsProjects(d *config.Docker) bool {
	if d == nil {
		return true
	}
	return !d.DisableCache && !slices.ContainsFunc((&reader{}).volumes(d).Binds, func(b container.Bind) bool { return path.Clean(b.Target) == builds })
}

// slotGroup is the name of a slot's control group. What its engine calls a group is for the operator to know: the engine refuses others.
func slotGroup(template string, slot int) string {
	return os.Expand(template, func(name string) string {
		if name == "slot" {
			return strconv.Itoa(slot)
		}
		return "${" + name + "}"
	})
}

// reader reads the small languages of some keys, and collects what is wrong with them.
type reader struct{ wrong []error }

func (r *reader) say(key, format string, args ...any) {
	r.wrong = append(r.wrong, &config.KeyError{Key: "docker." + key, Err: fmt.Errorf(format, args...)})
}

// patterns refuses those of images that match nothing.
func (r *reader) patterns(key string, patterns []string) {
	for _, p := range patterns {
		if !glob.ValidName(p) {
			r.say(key, "%q is not a pattern: its brackets or braces do not fit together", p)
		}
	}
}

// texts refuses values that no engine takes. An empty one is not set.
func (r *reader) texts(key string, texts []string, right func(string) bool, must string) {
	for _, text := range texts {
		if text != "" && !right(text) {
			r.say(key, "%q %s", text, must)
		}
	}
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

func isExtraHost(text string) bool {
	at := strings.IndexAny(text, ":=") // Docker takes both
	return at > 0 && (text[at+1:] == "host-gateway" || isAddress(strings.Trim(text[at+1:], "[]")))
}

var (
	deviceRule = lazyregexp.New(`^[acb] (\d+|\*):(\d+|\*) [rwm]{1,3}$`)
	set        = lazyregexp.New(`^\d+(-\d+)?(,\d+(-\d+)?)*$`)
)

func isDeviceRule(text string) bool { return deviceRule.MatchString(text) }

func isSet(text string) bool { return set.MatchString(text) }

// volumes reads TARGET, a folder that is kept, and SOURCE:TARGET[:OPTIONS].
func (r *reader) volumes(d *config.Docker) container.Volumes {
	out := container.Volumes{Folder: d.CacheDir, From: d.VolumesFrom, Driver: engine.VolumeDriver{Driver: d.VolumeDriver, DriverOpts: d.VolumeDriverOps}}
	if d.CacheDir != "" && !path.IsAbs(d.CacheDir) {
		r.say("cache_dir", "%q must be an absolute path of the engine's machine", d.CacheDir)
	}
	absolute := func(target string) string {
		if path.IsAbs(target) || strings.HasPrefix(target, "$") {
			return target
		}
		return path.Join(builds, target)
	}
	for _, text := range d.Volumes {
		parts := strings.SplitN(text, ":", 3)
		switch {
		case text == "":
		case slices.Contains(parts, ""):
			r.say("volumes", "%q must be TARGET or SOURCE:TARGET[:OPTIONS]", text)
		case len(parts) == 1:
			out.Kept = append(out.Kept, absolute(text))
		case strings.Contains(parts[0], "/") && !path.IsAbs(parts[0]):
			r.say("volumes", "%q: the source must be an absolute path of the engine's machine, or the name of a volume", text)
		case len(parts) == 3 && unknownOption(parts[2]) != "":
			r.say("volumes", "%q: no engine knows the option %q", text, unknownOption(parts[2]))
		default:
			out.Binds = append(out.Binds, container.Bind{Source: parts[0], Target: absolute(parts[1]), Options: strings.Join(parts[2:], "")})
		}
	}
	return out
}

// volumeOptions are those that Docker or Podman has, without their values.
var volumeOptions = []string{
	"ro", "rw", "z", "Z", "shared", "rshared", "slave", "rslave", "private", "rprivate", "unbindable", "runbindable", "nocopy", "copy", "consistent", "cached", "delegated",
	"U", "O", "bind", "rbind", "exec", "noexec", "dev", "nodev", "suid", "nosuid", "idmap", "upperdir", "workdir", "size", "mode", "noatime", "atime", "relatime",
}

// unknownOption is the first of a volume's options that no engine has; empty if there is none.
func unknownOption(list string) string {
	for _, option := range strings.Split(list, ",") {
		if name, _, _ := strings.Cut(option, "="); !slices.Contains(volumeOptions, name) && option != "" {
			return option
		}
	}
	return ""
}

// devices reads FILE[:FILE IN THE CONTAINER[:PERMISSIONS]].
func (r *reader) devices(key string, texts []string) (out []engine.Device) {
	for _, text := range texts {
		parts := strings.Split(text, ":")
		d := engine.Device{PathOnHost: parts[0], PathInContainer: parts[0], CgroupPermissions: "rwm"}
		if len(parts) > 1 {
			d.PathInContainer = parts[1]
		}
		if len(parts) > 2 {
			d.CgroupPermissions = parts[2]
		}
		if len(parts) > 3 || !path.IsAbs(d.PathOnHost) || !path.IsAbs(d.PathInContainer) || strings.Trim(d.CgroupPermissions, "rwm") != "" || d.CgroupPermissions == "" {
			r.say(key, "%q must be a file of the host, as in /dev/kvm or /dev/ttyUSB0:/dev/tty0:rw", text)
			continue
		}
		out = append(out, d)
	}
	return out
}

// ulimits reads SOFT or SOFT:HARD.
func (r *reader) ulimits(key string, texts map[string]string) (out []engine.Ulimit) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		soft, hard, both := strings.Cut(texts[name], ":")
		if !both {
			hard = soft
		}
		a, err := strconv.ParseInt(soft, 10, 64)
		b, err2 := strconv.ParseInt(hard, 10, 64)
		if err != nil || err2 != nil || b != -1 && (a > b || a == -1) {
			r.say(key, "%s = %q must be SOFT or SOFT:HARD, two numbers of which the second is at least as great; -1 stands for unlimited", name, texts[name])
			continue
		}
		out = append(out, engine.Ulimit{Name: name, Soft: a, Hard: b})
	}
	return out
}
