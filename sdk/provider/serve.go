package provider

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	providerv1 "github.com/rungci/rung/api/rung/provider/v1"
	"github.com/rungci/rung/executor/plugin/wire"
	"github.com/rungci/rung/internal/pluginhost/handshake"
	"github.com/rungci/rung/sdk/internal/pluginserver"
)

// Serve serves a plugin to the runner that started this program, and ends the program with it. What is written to standard error is in the
// runner's log; a line that begins with [WARN] or [ERROR] has that level there. So is what it prints, once it serves.
func Serve(p Plugin) {
	s := &server{plugin: p, machines: map[string]*Machine{}}
	pluginserver.Serve(p.Name, map[int]func(*grpc.Server){handshake.Version: func(to *grpc.Server) { providerv1.RegisterProviderServer(to, s) }}, func() bool {
		_, err := s.ready()
		return err == nil
	})
}

// alive is how often a call that waits says so.
const alive = handshake.Silence / 4

// server is a provider behind the wire.
type server struct {
	providerv1.UnimplementedProviderServer
	plugin Plugin

	mu       sync.Mutex
	provider Provider // nil until Open
	closed   bool
	machines map[string]*Machine // by key, until they are gone
}

// Describe implements providerv1.ProviderServer.
func (s *server) Describe(context.Context, *providerv1.DescribeRequest) (*providerv1.DescribeResponse, error) {
	return &providerv1.DescribeResponse{Name: s.plugin.Name, Version: s.plugin.Version, Summary: s.plugin.Summary, OptionsSchema: s.plugin.Schema}, nil
}

// Open implements providerv1.ProviderServer. It returns when the runner has ended, or has closed the provider.
func (s *server) Open(request *providerv1.OpenRequest, stream grpc.ServerStreamingServer[providerv1.OpenResponse]) error {
	options := json.RawMessage(request.GetOptions())
	if len(options) == 0 {
		options = json.RawMessage("{}")
	}
	setup := Setup{Owner: request.GetOwner(), State: request.GetState(), Lease: request.GetLease().AsDuration()}
	var p Provider
	if err := pluginserver.Guard(func() (err error) {
		p, err = s.plugin.Open(context.WithoutCancel(stream.Context()), setup, options)
		if err == nil && p == nil {
			err = errors.New("the plugin returned neither a provider nor an error")
		}
		return err
	}); err != nil {
		return wire.ProviderStatus(err)
	}
	s.mu.Lock()
	again := s.provider != nil
	if !again {
		s.provider = p
	}
	s.mu.Unlock()
	if again {
		return wire.ProviderStatus(errors.Join(errors.New("the plugin is open already"), p.Close()))
	}
	if err := stream.Send(&providerv1.OpenResponse{}); err != nil {
		return err
	}
	<-stream.Context().Done()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if !closed {
		pluginserver.End("its runner has ended")
	}
	return nil
}

// ready is the provider, once it is open.
func (s *server) ready() (Provider, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.provider == nil || s.closed {
		return nil, status.Error(codes.FailedPrecondition, "the plugin is not open")
	}
	return s.provider, nil
}

// with does something with the provider.
func (s *server) with(do func(Provider) error) error {
	p, err := s.ready()
	if err != nil {
		return err
	}
	return wire.ProviderStatus(pluginserver.Guard(func() error { return do(p) }))
}

// Capacity implements providerv1.ProviderServer.
func (s *server) Capacity(request *providerv1.CapacityRequest, stream grpc.ServerStreamingServer[providerv1.CapacityResponse]) error {
	return s.with(func(p Provider) error {
		ctx, cancel := context.WithCancelCause(stream.Context())
		defer cancel(nil)
		return p.Capacity(ctx, wire.DecodeNeeds(request.GetNeeds()), func(c Capacity) {
			if err := stream.Send(&providerv1.CapacityResponse{Free: int32(max(c.Free, 0)), Reason: c.Reason}); err != nil { //nolint:gosec // nobody has room for that many
				cancel(err)
			}
		})
	})
}

// Reserve implements providerv1.ProviderServer.
func (s *server) Reserve(ctx context.Context, request *providerv1.ReserveRequest) (*providerv1.ReserveResponse, error) {
	return &providerv1.ReserveResponse{}, s.with(func(p Provider) error {
		return p.Reserve(ctx, request.GetKey(), wire.DecodeNeeds(request.GetNeeds()))
	})
}

// Keep implements providerv1.ProviderServer.
func (s *server) Keep(ctx context.Context, request *providerv1.KeepRequest) (*providerv1.KeepResponse, error) {
	out := &providerv1.KeepResponse{}
	return out, s.with(func(p Provider) (err error) {
		out.Lost, err = p.Keep(ctx, request.GetKeys())
		return err
	})
}

// Acquire implements providerv1.ProviderServer.
func (s *server) Acquire(request *providerv1.AcquireRequest, stream grpc.ServerStreamingServer[providerv1.AcquireResponse]) error {
	job := Job{ID: request.GetJob().GetId(), Project: request.GetJob().GetProject(), Needs: wire.DecodeNeeds(request.GetJob().GetNeeds())}
	return s.machine(request.GetKey(), stream, func(ctx context.Context, p Provider, report Reporter) (*Machine, error) {
		return p.Acquire(ctx, request.GetKey(), job, report)
	})
}

// Recover implements providerv1.ProviderServer.
func (s *server) Recover(request *providerv1.RecoverRequest, stream grpc.ServerStreamingServer[providerv1.AcquireResponse]) error {
	return s.machine(request.GetKey(), stream, func(ctx context.Context, p Provider, _ Reporter) (*Machine, error) {
		return p.Recover(ctx, request.GetKey(), json.RawMessage(request.GetHandle()))
	})
}

// machine answers a call that waits for a machine, and keeps talking.
func (s *server) machine(key string, stream grpc.ServerStreamingServer[providerv1.AcquireResponse], get func(context.Context, Provider, Reporter) (*Machine, error)) error {
	var sending sync.Mutex
	send := func(r *providerv1.AcquireResponse) error {
		sending.Lock()
		defer sending.Unlock()
		return stream.Send(r)
	}
	over := make(chan struct{})
	var talking sync.WaitGroup
	defer func() { close(over); talking.Wait() }()
	talking.Go(func() {
		tick := time.NewTicker(alive)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				_ = send(&providerv1.AcquireResponse{})
			}
		}
	})
	return s.with(func(p Provider) error {
		m, err := get(stream.Context(), p, func(r Preparing) {
			_ = send(&providerv1.AcquireResponse{Content: &providerv1.AcquireResponse_Preparing{Preparing: wire.EncodeMachineReport(r)}})
		})
		if err != nil {
			return err
		}
		if m.Life == nil {
			m.Life = NewLife()
		}
		s.mu.Lock()
		s.machines[key] = m
		s.mu.Unlock()
		return send(&providerv1.AcquireResponse{Content: &providerv1.AcquireResponse_Machine{Machine: wire.EncodeMachine(m)}})
	})
}

// Watch implements providerv1.ProviderServer.
func (s *server) Watch(request *providerv1.WatchRequest, stream grpc.ServerStreamingServer[providerv1.WatchResponse]) error {
	s.mu.Lock()
	m := s.machines[request.GetKey()]
	s.mu.Unlock()
	if m == nil {
		return stream.Send(&providerv1.WatchResponse{Error: wire.EncodeProviderError(&Gone{Reason: "the plugin has no machine of this key"})})
	}
	select {
	case <-m.Done():
	case <-stream.Context().Done():
		return context.Cause(stream.Context())
	}
	s.mu.Lock()
	if s.machines[request.GetKey()] == m {
		delete(s.machines, request.GetKey())
	}
	s.mu.Unlock()
	return stream.Send(&providerv1.WatchResponse{Error: wire.EncodeProviderError(m.Life.Err())})
}

// Release implements providerv1.ProviderServer.
func (s *server) Release(ctx context.Context, request *providerv1.ReleaseRequest) (*providerv1.ReleaseResponse, error) {
	return &providerv1.ReleaseResponse{}, s.with(func(p Provider) error { return p.Release(ctx, request.GetKey(), request.GetFault()) })
}

// Close implements providerv1.ProviderServer.
func (s *server) Close(context.Context, *providerv1.CloseRequest) (*providerv1.CloseResponse, error) {
	s.mu.Lock()
	p, closed := s.provider, s.closed
	s.closed = true
	s.mu.Unlock()
	if p == nil || closed {
		return &providerv1.CloseResponse{}, nil
	}
	return &providerv1.CloseResponse{}, wire.ProviderStatus(pluginserver.Guard(p.Close))
}
