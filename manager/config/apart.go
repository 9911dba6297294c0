package config

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
)

// apart reports whether the entry's jobs are in containers that give them nothing of the machine. What is not known to be harmless is not.
func (r *Runner) apart() bool {
	if r.Executor != DockerAutoscalerExecutor {
		return false
	}
	for _, name := range append(slices.Clone(r.Isolation.Allowed), r.Isolation.Default) {
		if level := executor.Level(name); name != "" && (level == executor.Instance || level.Rank() < executor.Container.Rank()) { // on the machine itself
			return false
		}
	}
	return r.Docker == nil || r.Docker.apart()
}

// apart is Runner.apart, of its containers.
func (d *Docker) apart() bool {
	if d.ServicesPrivileged != nil && *d.ServicesPrivileged || slices.ContainsFunc(d.Volumes, func(text string) bool { return strings.Contains(text, ":") }) {
		return false
	}
	rest := *d
	// Where the engine is, and images come from.
	rest.Host, rest.TLSCertPath, rest.TLSVerify, rest.Image, rest.PullPolicy, rest.Services = "", "", false, "", nil, nil
	rest.AllowedImages, rest.AllowedServices, rest.AllowedPullPolicies, rest.AllowedPrivilegedImages, rest.AllowedPrivilegedServices = nil, nil, nil, nil, nil
	// Limits.
	rest.Memory, rest.MemorySwap, rest.MemoryReservation, rest.CPUSetCPUs, rest.CPUSetMems, rest.CPUs, rest.CPUShares = 0, 0, 0, "", "", 0, 0
	rest.ServiceMemory, rest.ServiceMemorySwap, rest.ServiceMemoryReservation = 0, 0, 0
	rest.ServiceCPUSetCPUs, rest.ServiceCPUs, rest.ServiceCPUShares, rest.ServicesLimit = "", 0, 0, nil
	rest.OOMKillDisable, rest.OOMScoreAdjust, rest.ShmSize, rest.Ulimit, rest.CapDrop = false, 0, 0, nil, nil
	rest.CgroupParent, rest.ServiceCgroupParent, rest.ServiceSlotCgroupTemplate = "", "", ""
	// What is within a container.
	rest.Hostname, rest.MACAddress, rest.User, rest.AllowedUsers, rest.DisableEntrypointOverwrite = "", "", "", nil, false
	rest.DNS, rest.DNSSearch, rest.ExtraHosts, rest.EnableIPv6, rest.NetworkMTU = nil, nil, nil, false, 0
	rest.Tmpfs, rest.ServicesTmpfs, rest.ContainerLabels, rest.LogOptions, rest.WaitForServicesTimeout = nil, nil, nil, nil, time.Duration(0)
	// What is kept, of each project on its own. The first was looked at.
	rest.Volumes, rest.CacheDir, rest.DisableCache, rest.ServicesPrivileged = nil, "", false, nil
	return reflect.ValueOf(rest).IsZero()
}
