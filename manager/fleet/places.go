package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/nesting/client"
	"github.com/rungci/rung/steps/event"
)

// source is the loop as a source of places.
type source struct{ *Provider }

// seat is a place: a job of the loop, whose key is another one than the provider's, because that can be used once.
type seat struct {
	key   string
	again bool  // another process had it
	nest  *nest // of its machine; nil: it has none
	vm    *vm   // where its job runs; nil: on the machine itself

	slot    *control.Slot // once there is one
	mounted string        // the folder of its volume, if that is a device; empty otherwise
	fault   string        // what is wrong with its machine; empty: nothing is known
}

// handle is that of a machine.
type handle struct {
	Key string `json:"key"`
	// VM and Addr are those of a virtual machine within it; empty: there is none.
	VM   string `json:"vm,omitempty"`
	Addr string `json:"addr,omitempty"`
	// Mounted is the folder of the job's volume, if that is a device; empty otherwise.
	Mounted string `json:"mounted,omitempty"`
}

// SpotLabel is the label by which needs say whether a machine may be one that its cloud can take back: "true" or "false".
const SpotLabel = "spot"

// needsOf are needs as the loop has them. The error is a *provider.NoCapacity.
func needsOf(n provider.Needs) (scale.Needs, error) {
	out := scale.Needs{Shape: scale.Shape{CPUs: n.CPUs, Memory: n.Memory, Disk: n.Disk, GPUs: n.GPUs, Arch: n.Arch, OS: n.OS}}
	for name, value := range n.Labels {
		switch {
		case name == SpotLabel && value == "true":
			out.Spot = scale.OnlySpot
		case name == SpotLabel && value == "false":
			out.Spot = scale.NoSpot
		default:
			return out, &provider.NoCapacity{Never: true, Reason: fmt.Sprintf("no pool has the label %s=%s", name, value)}
		}
	}
	return out, nil
}

// Free implements places.Source.
func (s *source) Free(needs provider.Needs) provider.Capacity {
	n, err := needsOf(needs)
	var none *provider.NoCapacity
	if errors.As(err, &none) {
		return provider.Capacity{Reason: none.Reason}
	}
	free, why := s.control.Free(n)
	if free <= 0 {
		return provider.Capacity{Reason: why}
	}
	return provider.Capacity{Free: free}
}

// Take implements places.Source.
func (s *source) Take(needs provider.Needs) (*seat, error) {
	n, err := needsOf(needs)
	if err != nil {
		return nil, err
	}
	at := &seat{key: rand.Text()}
	return at, s.room(s.control.Reserve(at.key, n), n)
}

// Queue implements places.Queue. Make asks the loop, which knows who waits and why.
func (s *source) Queue(needs provider.Needs) (*seat, error) {
	if _, err := needsOf(needs); err != nil {
		return nil, err
	}
	return &seat{key: rand.Text()}, nil
}

// room makes an error of the loop one of a provider.
func (s *source) room(err error, n scale.Needs) error {
	switch {
	case errors.Is(err, scale.ErrUnfit):
		return &provider.NoCapacity{Never: true, Reason: err.Error()}
	case errors.Is(err, scale.ErrNoCapacity):
		_, why := s.control.Free(n)
		return &provider.NoCapacity{Reason: why}
	case errors.Is(err, control.ErrReleased), errors.Is(err, control.ErrClosed): // another process may have room
		return provider.ErrNotReserved
	}
	return err
}

// Retake implements places.Source.
func (s *source) Retake(text json.RawMessage) (*seat, error) {
	var h handle
	if err := json.Unmarshal(text, &h); err != nil || h.Key == "" {
		return nil, &executor.Gone{Reason: "its handle cannot be read", Err: err}
	}
	at := &seat{key: h.Key, again: true, mounted: h.Mounted}
	if h.VM != "" {
		at.vm = &vm{VM: client.VM{ID: h.VM, Addr: h.Addr}}
	}
	return at, nil
}

// Give implements places.Source. What was wrong with a virtual machine is no fault of the machine that it was in.
func (s *source) Give(at *seat, fault string) {
	if at.vm != nil {
		fault = ""
	}
	s.control.Release(at.key, cmp.Or(fault, at.fault))
}

// End implements places.Source. What was on the machine has ended, and Give gives its slot back.
func (s *source) End(ctx context.Context, at *seat) error {
	if at.vm != nil {
		s.hosts.end(ctx, at.vm)
	}
	if at.nest != nil {
		at.nest.over(at.key)
	}
	s.mounts.settle(ctx, at)
	return nil
}

// Make implements places.Source.
func (s *source) Make(ctx context.Context, at *seat, job provider.Job, report executor.Reporter) (*provider.Machine, error) {
	slot, err := s.slot(ctx, at, job, report)
	if err != nil {
		return nil, err
	}
	m := &provider.Machine{
		Name: nameOf(&slot.Machine), Slot: slot.Number, Life: executor.NewLife(),
		Volume: slot.Volume, Connect: s.hosts.connector(slot.Machine), Fresh: s.pools[slot.Pool] != nil && s.pools[slot.Pool].fresh,
	}
	at.slot = slot
	if m.Volume != "" && !at.again {
		if s.mounts.has(m.Volume) {
			at.mounted = m.Volume
		}
		if err := s.tidy(ctx, at); err != nil {
			return nil, err
		}
	}
	if s.o.Engine != "" {
		m.Env = []string{"DOCKER_HOST=" + s.o.Engine}
	}
	if m.Handle, err = json.Marshal(handle{Key: at.key, Mounted: at.mounted}); err != nil {
		return nil, err
	}
	info, err := slot.ConnectInfo(ctx)
	if err != nil {
		return nil, fmt.Errorf("the machine %s cannot be reached: %w", m.Name, err)
	}
	if m.Access, err = s.hosts.access(&slot.Machine, info); err != nil {
		return nil, err
	}
	if a := s.o.Machinery.Autoscaler; a != nil && !at.again {
		tell := func(wanted bool, kind, address string) {
			if wanted && address != "" {
				report.Say(event.PhaseProvisioning, m.Name, fmt.Sprintf("The %s address of %s is %s", kind, m.Name, address))
			}
		}
		tell(a.LogInternalIP, "internal", info.InternalAddr)
		tell(a.LogExternalIP, "external", info.ExternalAddr)
	}
	go func() {
		select {
		case <-slot.Done():
			m.Finish(&executor.Gone{Reason: slot.Reason()})
		case <-m.Done():
		case <-s.life.Done(): // another process knows
		}
	}()
	if at.vm != nil || !at.again && isolated(s.o.Machinery) {
		if err := s.hosts.within(ctx, m, at, slot, report); err != nil {
			m.Finish(&executor.Gone{Reason: "it has no virtual machine", Err: err})
			return nil, err
		}
	}
	return m, nil
}

// slot is the loop's for a place.
func (s *source) slot(ctx context.Context, at *seat, job provider.Job, report executor.Reporter) (*control.Slot, error) {
	if at.again {
		slot, err := s.control.Recover(ctx, at.key)
		if errors.Is(err, control.ErrGone) {
			return nil, &executor.Gone{Reason: err.Error(), Err: err}
		}
		return slot, err
	}
	n, err := needsOf(job.Needs)
	if err != nil {
		return nil, err
	}
	s.own(job, &n)
	slot, err := s.control.Acquire(ctx, at.key, control.Job{ID: job.ID, Project: cmp.Or(job.ProjectName, job.Project), Needs: n}, func(why string) {
		report.Say(event.PhaseProvisioning, "", "Waiting for a machine: "+named(why, at.key, job.ID))
	})
	return slot, s.room(err, n)
}

func nameOf(m *control.Machine) string {
	if m.Instance != "" {
		return m.Instance
	}
	return m.Request
}
