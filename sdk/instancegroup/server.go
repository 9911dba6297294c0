package instancegroup

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "github.com/rungci/rung/api/rung/fleet/v1"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/wire"
	"github.com/rungci/rung/sdk/internal/pluginserver"
)

// orphanTime is how long the group of a runner that has died may take to shut down.
const orphanTime = 10 * time.Second

// server is a group behind the wire.
type server struct {
	fleetv1.UnimplementedInstanceGroupServer
	group   Basic
	version VersionInfo
	log     hclog.Logger
	// end ends the program.
	end func(why string)

	mu     sync.Mutex
	opened bool
	open   bool
	can    group.Abilities
}

// Describe implements fleetv1.InstanceGroupServer.
func (s *server) Describe(context.Context, *fleetv1.DescribeRequest) (*fleetv1.DescribeResponse, error) {
	out := &fleetv1.DescribeResponse{Name: s.version.Name, Version: s.version.String()}
	if schemer, ok := configured(s.group).(Schemer); ok {
		out.OptionsSchema = schemer.OptionsSchema()
	}
	return out, nil
}

// Open implements fleetv1.InstanceGroupServer. It returns when the runner has ended, or has shut the group down.
func (s *server) Open(request *fleetv1.OpenRequest, stream grpc.ServerStreamingServer[fleetv1.OpenResponse]) error {
	s.mu.Lock()
	again := s.opened
	s.opened = true
	s.mu.Unlock()
	if again {
		return status.Error(codes.FailedPrecondition, "the plugin is open already")
	}
	info, err := s.init(stream.Context(), request)
	if err != nil {
		return wire.Status(err)
	}
	s.mu.Lock()
	s.can = group.AbilitiesOf(s.group, info)
	s.open = true
	s.mu.Unlock()
	if err := stream.Send(wire.EncodeOpened(info, s.can)); err != nil {
		return err
	}
	<-stream.Context().Done()
	if _, err := s.ready(); err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), orphanTime)
		defer cancel()
		_ = s.shutdown(ctx) // nobody is left to be told
		s.end("its runner has ended")
	}
	return nil
}

// init configures the group. It ends with ctx, but what the group keeps of its context does not.
func (s *server) init(ctx context.Context, request *fleetv1.OpenRequest) (info ProviderInfo, err error) {
	living, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer stop()
	err = pluginserver.Guard(func() (err error) {
		if err = decode(request.GetOptions(), configured(s.group)); err == nil {
			info, err = s.group.Init(living, s.log, wire.DecodeSettings(request))
		}
		return err
	})
	info.ID, info.Version, info.BuildInfo = cmp.Or(info.ID, s.version.Name), cmp.Or(info.Version, s.version.String()), cmp.Or(info.BuildInfo, s.version.BuildInfo())
	return info, err
}

// ready is what the group can do, once it is open.
func (s *server) ready() (group.Abilities, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return s.can, status.Error(codes.FailedPrecondition, "the plugin is not open")
	}
	return s.can, nil
}

// having does something with the group, if it can.
func (s *server) having(able func(group.Abilities) bool, do func() error) error {
	can, err := s.ready()
	switch {
	case err != nil:
		return err
	case able != nil && !able(can):
		return status.Error(codes.Unimplemented, "the plugin does not do that")
	}
	return wire.Status(pluginserver.Guard(do))
}

// effect is the error of a call that may have had an effect before it failed.
func effect(err error) *fleetv1.Error {
	if errors.Is(err, pluginserver.ErrPanic) {
		err = &Error{Kind: ErrUncertain, Message: err.Error(), Err: err}
	}
	return wire.EncodeError(err)
}

// List implements fleetv1.InstanceGroupServer.
func (s *server) List(_ *fleetv1.ListRequest, stream grpc.ServerStreamingServer[fleetv1.ListResponse]) error {
	return s.having(nil, func() error {
		var page fleetv1.ListResponse
		var broken error
		add := func(i Instance) {
			page.Instances = append(page.Instances, wire.EncodeInstance(i))
			if len(page.Instances) == wire.Page && broken == nil {
				broken = stream.Send(&page)
				page.Instances = nil
			}
		}
		var err error
		if lister, ok := s.group.(Lister); ok {
			err = lister.List(stream.Context(), add)
		} else {
			err = s.group.Update(stream.Context(), func(id string, state State) { add(Instance{ID: id, State: state}) })
		}
		if err == nil && broken == nil && len(page.Instances) > 0 {
			broken = stream.Send(&page)
		}
		return cmp.Or(err, broken)
	})
}

// Watch implements fleetv1.InstanceGroupServer.
func (s *server) Watch(_ *fleetv1.WatchRequest, stream grpc.ServerStreamingServer[fleetv1.WatchResponse]) error {
	return s.having(func(can group.Abilities) bool { return can.Watch }, func() error {
		ctx, cancel := context.WithCancelCause(stream.Context())
		defer cancel(nil)
		return s.group.(Watcher).Watch(ctx, func(i Instance) {
			if err := stream.Send(&fleetv1.WatchResponse{Instance: wire.EncodeInstance(i)}); err != nil {
				cancel(err)
			}
		})
	})
}

// Offers implements fleetv1.InstanceGroupServer.
func (s *server) Offers(ctx context.Context, _ *fleetv1.OffersRequest) (*fleetv1.OffersResponse, error) {
	out := &fleetv1.OffersResponse{}
	return out, s.having(func(can group.Abilities) bool { return can.Offers }, func() error {
		offers, err := s.group.(Offerer).Offers(ctx)
		for _, o := range offers {
			out.Offers = append(out.Offers, wire.EncodeOffer(o))
		}
		return err
	})
}

// Increase implements fleetv1.InstanceGroupServer.
func (s *server) Increase(ctx context.Context, r *fleetv1.IncreaseRequest) (*fleetv1.IncreaseResponse, error) {
	out := &fleetv1.IncreaseResponse{}
	can, err := s.ready()
	if err != nil {
		return nil, err
	}
	out.Error = effect(pluginserver.Guard(func() (err error) {
		if can.Requests && r.GetRequest() != "" {
			out.Instances, err = s.group.(ShapeIncreaser).IncreaseShape(ctx, Request{
				ID: r.GetRequest(), Count: int(r.GetCount()), Shape: r.GetShape(), Zone: r.GetZone(), Spot: r.GetSpot(), Labels: r.GetLabels(),
			})
			out.Count = int64(len(out.Instances))
			return err
		}
		n, err := s.group.Increase(ctx, int(r.GetCount()))
		out.Count = int64(n)
		return err
	}))
	return out, nil
}

// Decrease implements fleetv1.InstanceGroupServer.
func (s *server) Decrease(ctx context.Context, r *fleetv1.DecreaseRequest) (*fleetv1.DecreaseResponse, error) {
	out := &fleetv1.DecreaseResponse{}
	if _, err := s.ready(); err != nil {
		return nil, err
	}
	out.Error = effect(pluginserver.Guard(func() (err error) {
		out.Succeeded, err = s.group.Decrease(ctx, r.GetInstances())
		return err
	}))
	return out, nil
}

// Suspend implements fleetv1.InstanceGroupServer.
func (s *server) Suspend(ctx context.Context, r *fleetv1.SuspendRequest) (*fleetv1.SuspendResponse, error) {
	out := &fleetv1.SuspendResponse{}
	return out, s.having(func(can group.Abilities) bool { return can.Suspend }, func() error {
		out.Error = effect(pluginserver.Guard(func() (err error) {
			out.Succeeded, err = s.group.(Suspender).Suspend(ctx, r.GetInstances())
			return err
		}))
		return nil
	})
}

// Resume implements fleetv1.InstanceGroupServer.
func (s *server) Resume(ctx context.Context, r *fleetv1.ResumeRequest) (*fleetv1.ResumeResponse, error) {
	out := &fleetv1.ResumeResponse{}
	return out, s.having(func(can group.Abilities) bool { return can.Suspend }, func() error {
		out.Error = effect(pluginserver.Guard(func() (err error) {
			out.Succeeded, err = s.group.(Suspender).Resume(ctx, r.GetInstances())
			return err
		}))
		return nil
	})
}

// ConnectInfo implements fleetv1.InstanceGroupServer.
func (s *server) ConnectInfo(ctx context.Context, r *fleetv1.ConnectInfoRequest) (out *fleetv1.ConnectInfoResponse, err error) {
	err = s.having(nil, func() error {
		info, err := s.group.ConnectInfo(ctx, r.GetInstance())
		if err == nil {
			out = wire.EncodeConnectInfo(info)
		}
		return err
	})
	return out, err
}

// Heartbeat implements fleetv1.InstanceGroupServer.
func (s *server) Heartbeat(ctx context.Context, r *fleetv1.HeartbeatRequest) (*fleetv1.HeartbeatResponse, error) {
	return &fleetv1.HeartbeatResponse{}, s.having(func(can group.Abilities) bool { return can.Heartbeat }, func() error {
		err := pluginserver.Guard(func() error { return s.group.(Heartbeater).Heartbeat(ctx, r.GetInstance()) })
		if errors.Is(err, pluginserver.ErrPanic) { // which says nothing of the instance, as a plain error does
			return Transient(0, err)
		}
		return err
	})
}

// Metrics implements fleetv1.InstanceGroupServer.
func (s *server) Metrics(ctx context.Context, _ *fleetv1.MetricsRequest) (*fleetv1.MetricsResponse, error) {
	out := &fleetv1.MetricsResponse{}
	return out, s.having(func(can group.Abilities) bool { return can.Metrics }, func() error {
		metrics, err := s.group.(Meter).Metrics(ctx)
		for _, m := range metrics {
			out.Metrics = append(out.Metrics, wire.EncodeMetric(m))
		}
		return err
	})
}

// Shutdown implements fleetv1.InstanceGroupServer.
func (s *server) Shutdown(ctx context.Context, _ *fleetv1.ShutdownRequest) (*fleetv1.ShutdownResponse, error) {
	return &fleetv1.ShutdownResponse{}, wire.Status(s.shutdown(ctx))
}

func (s *server) shutdown(ctx context.Context) error {
	s.mu.Lock()
	open := s.open
	s.open = false
	s.mu.Unlock()
	shutdowner, ok := s.group.(Shutdowner)
	if !ok || !open {
		return nil
	}
	return pluginserver.Guard(func() error { return shutdowner.Shutdown(ctx) })
}
