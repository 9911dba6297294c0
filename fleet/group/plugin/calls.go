package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"

	fleetv1 "github.com/rungci/rung/api/rung/fleet/v1"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/wire"
	"github.com/rungci/rung/internal/pluginhost"
)

// maxInstances bounds what is read of one list.
const maxInstances = 100_000

type client = fleetv1.InstanceGroupClient

// Update implements group.Basic.
func (g *Group) Update(ctx context.Context, update func(string, group.State)) error {
	return g.List(ctx, func(i group.Instance) { update(i.ID, i.State) })
}

// List implements group.Lister.
func (g *Group) List(ctx context.Context, update func(group.Instance)) error {
	_, err := g.call(ctx, "List", func(ctx context.Context, rpc client, c *pluginhost.Call) error {
		stream, err := rpc.List(ctx, &fleetv1.ListRequest{})
		for count := 0; err == nil; {
			var page *fleetv1.ListResponse
			if page, err = stream.Recv(); err != nil {
				break
			}
			c.Heard()
			if count += len(page.GetInstances()); count > maxInstances {
				return g.lies("List", fmt.Errorf("there are more than %d instances", maxInstances))
			}
			for _, m := range page.GetInstances() {
				update(wire.DecodeInstance(m))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
	return err
}

// lies is an answer that cannot be.
func (g *Group) lies(call string, what error) error {
	return &Failure{Kind: Kind.Name, Plugin: g.config.Name, Call: call, What: "says what cannot be", Err: what}
}

// Watch implements group.Watcher.
func (g *Group) Watch(ctx context.Context, update func(group.Instance)) error {
	_, err := g.call(ctx, "Watch", func(ctx context.Context, rpc client, c *pluginhost.Call) error {
		c.Rest() // nothing may happen for long
		stream, err := rpc.Watch(ctx, &fleetv1.WatchRequest{})
		for err == nil {
			var m *fleetv1.WatchResponse
			if m, err = stream.Recv(); err == nil {
				update(wire.DecodeInstance(m.GetInstance()))
			}
		}
		if errors.Is(err, io.EOF) {
			return g.lies("Watch", errors.New("it does not watch any more, and there is no error"))
		}
		return err
	})
	return err
}

// Offers implements group.Offerer.
func (g *Group) Offers(ctx context.Context) (out []group.Offer, err error) {
	_, err = g.call(ctx, "Offers", func(ctx context.Context, rpc client, _ *pluginhost.Call) error {
		answer, err := rpc.Offers(ctx, &fleetv1.OffersRequest{})
		for _, m := range answer.GetOffers() {
			out = append(out, wire.DecodeOffer(m))
		}
		return err
	})
	return out, err
}

// Increase implements group.Basic.
func (g *Group) Increase(ctx context.Context, n int) (succeeded int, err error) {
	err = g.asked(ctx, "Increase", func(ctx context.Context, rpc client) (*fleetv1.Error, error) {
		answer, err := rpc.Increase(ctx, &fleetv1.IncreaseRequest{Count: int64(n)})
		succeeded = int(answer.GetCount())
		return answer.GetError(), err
	})
	return succeeded, err
}

// IncreaseShape implements group.ShapeIncreaser.
func (g *Group) IncreaseShape(ctx context.Context, r group.Request) (ids []string, err error) {
	err = g.asked(ctx, "Increase", func(ctx context.Context, rpc client) (*fleetv1.Error, error) {
		answer, err := rpc.Increase(ctx, &fleetv1.IncreaseRequest{Request: r.ID, Count: int64(r.Count), Shape: r.Shape, Zone: r.Zone, Spot: r.Spot, Labels: r.Labels})
		ids = answer.GetInstances()
		return answer.GetError(), err
	})
	return ids, err
}

// Decrease implements group.Basic.
func (g *Group) Decrease(ctx context.Context, instances []string) (succeeded []string, err error) {
	err = g.asked(ctx, "Decrease", func(ctx context.Context, rpc client) (*fleetv1.Error, error) {
		answer, err := rpc.Decrease(ctx, &fleetv1.DecreaseRequest{Instances: instances})
		succeeded = answer.GetSucceeded()
		return answer.GetError(), err
	})
	return succeeded, err
}

// Suspend implements group.Suspender.
func (g *Group) Suspend(ctx context.Context, instances []string) (succeeded []string, err error) {
	err = g.asked(ctx, "Suspend", func(ctx context.Context, rpc client) (*fleetv1.Error, error) {
		answer, err := rpc.Suspend(ctx, &fleetv1.SuspendRequest{Instances: instances})
		succeeded = answer.GetSucceeded()
		return answer.GetError(), err
	})
	return succeeded, err
}

// Resume implements group.Suspender.
func (g *Group) Resume(ctx context.Context, instances []string) (succeeded []string, err error) {
	err = g.asked(ctx, "Resume", func(ctx context.Context, rpc client) (*fleetv1.Error, error) {
		answer, err := rpc.Resume(ctx, &fleetv1.ResumeRequest{Instances: instances})
		succeeded = answer.GetSucceeded()
		return answer.GetError(), err
	})
	return succeeded, err
}

// ConnectInfo implements group.Basic.
func (g *Group) ConnectInfo(ctx context.Context, instance string) (info group.ConnectInfo, err error) {
	_, err = g.call(ctx, "ConnectInfo", func(ctx context.Context, rpc client, _ *pluginhost.Call) error {
		answer, err := rpc.ConnectInfo(ctx, &fleetv1.ConnectInfoRequest{Instance: instance})
		info = wire.DecodeConnectInfo(answer)
		return err
	})
	if err != nil {
		return group.ConnectInfo{}, err
	}
	return info, nil
}

// Heartbeat implements group.Heartbeater. An error to which the plugin gives no kind is ErrInstanceUnhealthy: plugins of fleeting know no other.
func (g *Group) Heartbeat(ctx context.Context, instance string) error {
	plain := false
	_, err := g.call(ctx, "Heartbeat", func(ctx context.Context, rpc client, _ *pluginhost.Call) error {
		_, err := rpc.Heartbeat(ctx, &fleetv1.HeartbeatRequest{Instance: instance})
		said, ok := wire.FromStatus(err)
		plain = ok && wire.EncodeError(said).GetCode() == fleetv1.Code_CODE_INTERNAL
		return err
	})
	var failure *Failure // that it ends meanwhile says nothing of the instance, nor does that the time is over
	if plain && ctx.Err() == nil && !errors.As(err, &failure) {
		return &group.Error{Kind: group.ErrInstanceUnhealthy, Message: err.Error(), Err: err}
	}
	return err
}

// Metrics implements group.Meter.
func (g *Group) Metrics(ctx context.Context) (out []group.Metric, err error) {
	_, err = g.call(ctx, "Metrics", func(ctx context.Context, rpc client, _ *pluginhost.Call) error {
		answer, err := rpc.Metrics(ctx, &fleetv1.MetricsRequest{})
		for _, m := range answer.GetMetrics() {
			out = append(out, wire.DecodeMetric(m))
		}
		return err
	})
	return out, err
}
