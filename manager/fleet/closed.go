package fleet

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/store"
	"github.com/rungci/rung/internal/sharedstate"
	"github.com/rungci/rung/manager/config"
)

// Closed is the fleet of a folder while it is not open, as when its plugin does not start: what its state has of machines, their jobs and volumes. Nothing is asked of
// anybody, and nothing is changed. shared is the state that hosts share; nil: it is in the folder.
func Closed(folder string, shared *sharedstate.State, m *config.Machinery) *Status {
	out := &Status{Closed: true}
	var state store.State
	var err error
	if shared != nil {
		state, err = store.ReadShared(shared, SharedPrefix+filepath.Base(folder)+"/")
	} else {
		state, err = store.Read(filepath.Join(folder, stateFolder))
	}
	if err != nil {
		out.Trouble = err.Error()
	}
	for _, of := range poolsOf(m) {
		p := kindOf(of, m)
		out.Pools = append(out.Pools, PoolStatus{Name: p.Name, Instances: map[string]int{}, Most: p.MaxInstances, Slots: p.Slots, Price: p.Price})
	}
	numbers := map[string]string{}
	for key, j := range state.Jobs {
		numbers[key] = j.ID
	}
	names := map[string]string{} // of machines, by request
	for _, rec := range state.Fleet.Instances {
		// Since when it has its state is not recorded.
		one := machineOf(control.MachineStatus{InstanceRecord: rec, Since: rec.Created}, numbers)
		names[rec.Request] = one.Name()
		out.Machines = append(out.Machines, one)
		out.pool(rec).Instances[one.State]++
		for slot, key := range rec.Jobs {
			if j, known := state.Jobs[key]; known {
				why := fmt.Sprintf("job %s runs on %s (pool %s), slot %d, since %s", cmp.Or(j.ID, "?"), one.Name(), one.Pool, slot, j.Placed.UTC().Format(time.TimeOnly))
				out.Jobs = append(out.Jobs, JobStatus{Job: j.ID, Project: j.Project, State: string(control.Running), Request: j.Request, Since: j.Placed, Why: why})
			}
		}
	}
	for _, v := range state.Fleet.Volumes {
		out.Volumes = append(out.Volumes, VolumeStatus{Name: v.Name, ID: v.ID, State: v.State.String(), Machine: cmp.Or(names[v.Machine], v.Machine), Zone: v.Zone, Created: v.Created, Used: v.Used})
	}
	slices.SortFunc(out.Machines, func(a, b MachineStatus) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), a.Created.Compare(b.Created), cmp.Compare(a.Request, b.Request))
	})
	slices.SortFunc(out.Jobs, func(a, b JobStatus) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Job, b.Job)) })
	return out
}

// pool is that of a machine, which the configuration may have no more.
func (s *Status) pool(of scale.InstanceRecord) *PoolStatus {
	i := slices.IndexFunc(s.Pools, func(p PoolStatus) bool { return p.Name == of.Pool })
	if i < 0 {
		i = len(s.Pools)
		s.Pools = append(s.Pools, PoolStatus{Name: of.Pool, Instances: map[string]int{}, Slots: len(of.Jobs)})
	}
	return &s.Pools[i]
}
