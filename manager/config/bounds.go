package config

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/diag"
)

// highestPort is that of TCP.
const highestPort = 1<<16 - 1

// bounds is a reader that checks values which mean nothing beyond a bound, or nothing at all.
type bounds struct{ *reader }

// fleet checks the values of a fleet.
func (r bounds) fleet(m *Machinery, path string) {
	r.share(path+".fleet.worth", m.Fleet.Worth)
	r.share(path+".fleet.patience", m.Fleet.Patience)
	for i, p := range m.Fleet.Pools {
		r.platform(fmt.Sprintf("%s.fleet.pools[%d]", path, i), p.OS, p.Arch)
	}
	a := m.Autoscaler
	if a == nil {
		return
	}
	path += ".autoscaler"
	if limit := a.ScaleThrottle.Limit; limit < -1 {
		r.found(warning, "config/value", path+".scale_throttle.limit", r.doc.vals, "write -1 if that is meant", "limit = %d counts as -1: without a limit", limit)
	}
	for at, c := range map[string]struct {
		port     int
		os, arch string
	}{
		path + ".connector_config":              {a.Connector.ProtocolPort, a.Connector.OS, a.Connector.Arch},
		path + ".vm_isolation.connector_config": {a.VMIsolation.Connector.ProtocolPort, a.VMIsolation.Connector.OS, a.VMIsolation.Connector.Arch},
	} {
		if c.port > highestPort {
			r.found(problem, "config/value", at+".protocol_port", r.doc.vals, fmt.Sprintf("write a number from 1 to %d", highestPort), "there is no port %d", c.port)
		}
		r.platform(at, c.os, c.arch)
	}
	for key, buckets := range map[string][]float64{
		"operation_time_buckets": a.OperationBuckets, "creation_time_buckets": a.CreationBuckets, "is_running_time_buckets": a.RunningBuckets,
		"deletion_time_buckets": a.DeletionBuckets, "readiness_time_buckets": a.ReadinessBuckets, "life_duration_buckets": a.LifeBuckets,
	} {
		r.buckets(path+".instance_"+key, buckets)
	}
}

// provider checks what machines must have, and what those of a list have.
func (r bounds) provider(p *Provider, path string) {
	r.platform(path+".needs", p.Needs.OS, p.Needs.Arch)
	for i, system := range p.AllowedNeeds.OS {
		r.oneOf(fmt.Sprintf("%s.allowed_needs.os[%d]", path, i), system, systems)
	}
	for i, arch := range p.AllowedNeeds.Arch {
		r.oneOf(fmt.Sprintf("%s.allowed_needs.arch[%d]", path, i), arch, arches)
	}
	for i, h := range p.Hosts {
		r.platform(fmt.Sprintf("%s.hosts[%d]", path, i), h.OS, h.Arch)
	}
}

// share checks a number that is a part of one.
func (r bounds) share(at string, value float64) {
	if !(value <= 1) { // what is negative is told with other numbers
		r.found(problem, "config/value", at, r.doc.vals, "write for example 0.02", "%s must be a number from 0 to 1, not %g", lastOf(at), value)
	}
}

// buckets checks that a histogram can be made of them.
func (r bounds) buckets(at string, all []float64) {
	for i, one := range all {
		place := fmt.Sprintf("%s[%d]", at, i)
		switch {
		case math.IsNaN(one) || math.IsInf(one, 0):
			r.found(problem, "config/value", place, r.doc.vals, "delete it: the last bucket has no bound by itself", "%s: %g cannot bound a bucket", lastOf(at), one)
		case i > 0 && one <= all[i-1]:
			r.found(problem, "config/value", place, r.doc.vals, "write them in increasing order, each once", "%s: buckets must grow, and %g follows %g", lastOf(at), one, all[i-1])
		default:
			continue
		}
		return
	}
}

// slots checks the templates of control groups.
func (r bounds) slots(e *Runner, path string) {
	if !e.UseSlotCgroups {
		return
	}
	check := func(at, template string) {
		in := func(slot string) string {
			return os.Expand(template, func(name string) string { return map[string]string{"slot": slot}[name] })
		}
		if template != "" && in("0") == in("1") {
			r.found(warning, "config/value", at, r.doc.vals, "write for example \""+DefaultSlotCgroupTemplate+"\"", "%s has no ${slot}: the jobs of all slots are in one control group", lastOf(at))
		}
	}
	check(path+".slot_cgroup_template", e.SlotCgroupTemplate)
	if e.Docker != nil {
		check(path+".docker.service_slot_cgroup_template", e.Docker.ServiceSlotCgroupTemplate)
	}
}

// The systems and architectures of machines, as Go has them, and what others call them.
var (
	systems = []string{"aix", "darwin", "dragonfly", "freebsd", "illumos", "linux", "netbsd", "openbsd", "plan9", "solaris", "windows"}
	arches  = []string{"386", "amd64", "arm", "arm64", "loong64", "mips", "mips64", "mips64le", "mipsle", "ppc64", "ppc64le", "riscv64", "s390x"}
	aliases = map[string]string{
		"macos": "darwin", "osx": "darwin", "mac": "darwin", "win": "windows", "ubuntu": "linux", "debian": "linux",
		"x86_64": "amd64", "x86-64": "amd64", "x64": "amd64", "aarch64": "arm64", "armv8": "arm64", "armv7": "arm", "armv7l": "arm", "armhf": "arm", "x86": "386", "i386": "386", "i686": "386",
	}
)

// platform checks what a table says of the system and the architecture of machines. They are compared with what jobs ask for, and so must be written alike.
func (r bounds) platform(at, system, arch string) {
	r.oneOf(at+".os", system, systems)
	r.oneOf(at+".arch", arch, arches)
}

// oneOf checks one of them against those that there are.
func (r bounds) oneOf(at, value string, all []string) {
	if value == "" || slices.Contains(all, value) {
		return
	}
	lower := strings.ToLower(value)
	near := aliases[lower]
	if slices.Contains(all, lower) {
		near = lower
	}
	hint := "write one of " + strings.Join(all, ", ")
	if near = cmp.Or(near, diag.Suggest(value, all)); slices.Contains(all, near) {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	r.found(warning, "config/value", at, r.doc.vals, hint, "no machine has %s %q", lastOf(at), value)
}

// lastOf is the key that a path leads to.
func lastOf(path string) string {
	key, _, _ := strings.Cut(path[strings.LastIndexByte(path, '.')+1:], "[")
	return key
}
