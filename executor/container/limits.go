package container

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/steps/event"
)

// admit refuses limits that the engine would accept and not enforce, because its kernel lacks what they need.
func (v *preparation) admit(ctx context.Context) error {
	if err := (keptProject{v}).admit(); err != nil {
		return err
	}
	if err := (gateway{v}).admit(); err != nil {
		return err
	}
	a, b := v.job.Resources, v.job.ServiceResources
	neverKilled := v.executor.opts.Job.OomKillDisable
	if a == (executor.Resources{}) && b == (executor.Resources{}) && !neverKilled {
		return nil
	}
	found, err := v.executor.client.Info(ctx)
	if err != nil {
		return v.executor.unreachable(ctx, err)
	}
	v.cpus = found.NCPU
	if neverKilled && !found.OomKillDisable {
		v.report.Say(event.PhaseStarting, "", fmt.Sprintf("warning: the kernel of the engine at %s kills processes when memory runs out, whatever the runner's configuration says", v.executor.engine))
	}
	var missing []string
	for _, limit := range []struct {
		asked, held bool
		name        string
	}{
		{a.CPU > 0 || b.CPU > 0, found.CPUCfsQuota, "processors"},
		{a.Memory > 0 || b.Memory > 0, found.MemoryLimit, "memory"},
		{a.PIDs > 0 || b.PIDs > 0, found.PidsLimit, "processes"},
		{a.CPUSet != "" || b.CPUSet != "", found.CPUSet, "which processors are used"},
	} {
		if limit.asked && !limit.held {
			missing = append(missing, limit.name)
		}
	}
	if missing == nil {
		return nil
	}
	return &executor.Refusal{Level: v.executor.opts.Level, What: fmt.Sprintf("limits of %s in the engine at %s", strings.Join(missing, ", "), v.executor.engine)}
}

// bounded adds to a configuration what a container may use. Swap space beyond the limit would let it use more memory.
func (v *preparation) bounded(host engine.HostConfig, r executor.Resources) engine.HostConfig {
	cpus := r.CPU
	if v.cpus > 0 { // engines refuse a limit beyond what they have, which is none
		cpus = min(cpus, float64(v.cpus))
	}
	host.Memory, host.NanoCpus, host.PidsLimit, host.CpusetCpus = r.Memory, int64(cpus*1e9), r.PIDs, r.CPUSet
	if r.Parent != "" {
		host.CgroupParent = r.Parent
	}
	if r.Memory > 0 {
		host.MemorySwap = r.Memory + r.Swap
	}
	if r.Disk > 0 {
		host.StorageOpt = map[string]string{"size": strconv.FormatInt(r.Disk, 10)}
	}
	return host
}

// notMade explains why a container was not made. Only when it makes one does an engine say that its storage has no quotas.
func (v *preparation) notMade(ctx context.Context, what, image string, r executor.Resources, err error) error {
	if r.Disk > 0 && engine.Status(err) != 0 {
		return &executor.UserError{
			Message: fmt.Sprintf("the container engine at %s does not make %s with a limit of disk space: %v", v.executor.engine, what, err),
			Hint:    "leave out the limit of disk space, or use an engine whose storage has quotas: overlay2 on XFS that is mounted with pquota", Err: err,
		}
	}
	return occupied(v.executor.failed(ctx, "making "+what, err), image, buildsFolder)
}
