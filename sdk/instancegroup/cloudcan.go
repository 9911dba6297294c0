package instancegroup

import (
	"context"

	"github.com/rungci/rung/fleet/group"
)

// Abilities implements group.Abler: what the cloud can do, and what is done for it.
func (m *machines) Abilities() group.Abilities {
	can := group.Abilities{Details: true, Requests: true}
	_, can.Heartbeat = m.cloud.(Heartbeater)
	_, can.Suspend = m.cloud.(Suspender)
	_, can.Watch = m.cloud.(Watcher)
	_, can.Offers = m.cloud.(Offerer)
	_, can.Metrics = m.cloud.(Meter)
	can.Volumes = group.NoVolumes(m.cloud) == nil
	return can
}

// What follows is called where the cloud can.

// Heartbeat implements Heartbeater.
func (m *machines) Heartbeat(ctx context.Context, id string) error {
	return m.cloud.(Heartbeater).Heartbeat(ctx, id)
}

// Suspend implements Suspender.
func (m *machines) Suspend(ctx context.Context, ids []string) ([]string, error) {
	return m.cloud.(Suspender).Suspend(ctx, ids)
}

// Resume implements Suspender.
func (m *machines) Resume(ctx context.Context, ids []string) ([]string, error) {
	return m.cloud.(Suspender).Resume(ctx, ids)
}

// Watch implements Watcher.
func (m *machines) Watch(ctx context.Context, update func(Instance)) error {
	return m.cloud.(Watcher).Watch(ctx, update)
}

// Offers implements Offerer.
func (m *machines) Offers(ctx context.Context) ([]Offer, error) { return m.cloud.(Offerer).Offers(ctx) }

// Metrics implements Meter.
func (m *machines) Metrics(ctx context.Context) ([]Metric, error) {
	return m.cloud.(Meter).Metrics(ctx)
}

// Shutdown implements Shutdowner, whether the cloud does or not.
func (m *machines) Shutdown(ctx context.Context) error {
	if s, ok := m.cloud.(Shutdowner); ok {
		return s.Shutdown(ctx)
	}
	return nil
}
