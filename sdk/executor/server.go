package executor

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	executorv1 "github.com/rungci/rung/api/rung/executor/v1"
	"github.com/rungci/rung/executor/plugin/wire"
	"github.com/rungci/rung/sdk/internal/pluginserver"
)

// server is an executor behind the wire.
type server struct {
	executorv1.UnimplementedExecutorServer
	plugin Plugin
	// end ends the program.
	end func(why string)

	mu       sync.Mutex
	executor Executor // nil until Open
	closed   bool
	places   map[string]*place
	over     cleaned
}

func newServer(p Plugin, end func(string)) *server {
	return &server{plugin: p, end: end, places: map[string]*place{}, over: cleaned{ids: map[string]bool{}}}
}

func (s *server) opened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.executor != nil
}

// Describe implements executorv1.ExecutorServer.
func (s *server) Describe(context.Context, *executorv1.DescribeRequest) (*executorv1.DescribeResponse, error) {
	p := s.plugin
	out := &executorv1.DescribeResponse{
		Name: p.Name, Version: p.Version, Level: string(p.Level), Rank: string(p.Rank), Summary: p.Summary, OptionsSchema: p.Schema,
	}
	if p.PrepareSilence > 0 {
		out.PrepareSilence = durationpb.New(p.PrepareSilence)
	}
	return out, nil
}

// Open implements executorv1.ExecutorServer. It returns when the runner has ended, or has closed the executor.
func (s *server) Open(request *executorv1.OpenRequest, stream grpc.ServerStreamingServer[executorv1.OpenResponse]) error {
	options := json.RawMessage(request.GetOptions())
	if len(options) == 0 {
		options = json.RawMessage("{}")
	}
	var e Executor
	err := pluginserver.Guard(func() (err error) {
		e, err = s.plugin.Open(context.WithoutCancel(stream.Context()), wire.DecodeSetup(request), options)
		return err
	})
	if err != nil {
		return wire.Status(err)
	}
	s.mu.Lock()
	again := s.executor != nil
	if !again {
		s.executor = e
	}
	s.mu.Unlock()
	if again {
		return wire.Status(errors.Join(errors.New("the plugin is open already"), e.Close()))
	}
	if err := stream.Send(&executorv1.OpenResponse{Capabilities: wire.EncodeCapabilities(e.Capabilities())}); err != nil {
		return err
	}
	<-stream.Context().Done()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if !closed {
		s.end("its runner has ended")
	}
	return nil
}

// ready is the executor, once it is open.
func (s *server) ready() (Executor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.executor == nil || s.closed {
		return nil, status.Error(codes.FailedPrecondition, "the plugin is not open")
	}
	return s.executor, nil
}

// with does something with the environment of an ID.
func (s *server) with(ctx context.Context, id string, do func(Environment) error) error {
	s.mu.Lock()
	p := s.places[id]
	s.mu.Unlock()
	if p == nil {
		return wire.Status(&Gone{Reason: "the plugin does not know the environment: it was cleaned up, or is another process's"})
	}
	select {
	case <-p.ready:
	case <-ctx.Done():
		return wire.Status(context.Cause(ctx))
	}
	if p.err != nil {
		return wire.Status(p.err)
	}
	return wire.Status(pluginserver.Guard(func() error { return do(p.env) }))
}

// Watch implements executorv1.ExecutorServer.
func (s *server) Watch(request *executorv1.WatchRequest, stream grpc.ServerStreamingServer[executorv1.WatchResponse]) error {
	return s.with(stream.Context(), request.GetEnvironment(), func(env Environment) error {
		select {
		case <-env.Done():
			return stream.Send(&executorv1.WatchResponse{Error: wire.Encode(env.Err())})
		case <-stream.Context().Done():
			return context.Cause(stream.Context())
		}
	})
}

// Check implements executorv1.ExecutorServer.
func (s *server) Check(ctx context.Context, request *executorv1.CheckRequest) (*executorv1.CheckResponse, error) {
	return &executorv1.CheckResponse{}, s.with(ctx, request.GetEnvironment(), func(env Environment) error { return env.Check(ctx) })
}

// Detach implements executorv1.ExecutorServer.
func (s *server) Detach(ctx context.Context, request *executorv1.DetachRequest) (*executorv1.DetachResponse, error) {
	return &executorv1.DetachResponse{}, s.with(ctx, request.GetEnvironment(), func(env Environment) error { return env.Detach() })
}

// Sweep implements executorv1.ExecutorServer.
func (s *server) Sweep(ctx context.Context, _ *executorv1.SweepRequest) (*executorv1.SweepResponse, error) {
	e, err := s.ready()
	if err != nil {
		return nil, err
	}
	return &executorv1.SweepResponse{}, wire.Status(pluginserver.Guard(func() error { return e.Sweep(ctx) }))
}

// Kept implements executorv1.ExecutorServer.
func (s *server) Kept(ctx context.Context, _ *executorv1.KeptRequest) (*executorv1.KeptResponse, error) {
	keeper, err := s.keeper()
	if err != nil {
		return nil, err
	}
	out := &executorv1.KeptResponse{}
	return out, wire.Status(pluginserver.Guard(func() error {
		all, err := keeper.Kept(ctx)
		for _, one := range all {
			out.Projects = append(out.Projects, &executorv1.KeptProject{Name: one.Name, Place: one.Place, Made: timestamppb.New(one.Made)})
		}
		return err
	}))
}

// Forget implements executorv1.ExecutorServer.
func (s *server) Forget(ctx context.Context, request *executorv1.ForgetRequest) (*executorv1.ForgetResponse, error) {
	keeper, err := s.keeper()
	if err != nil {
		return nil, err
	}
	return &executorv1.ForgetResponse{}, wire.Status(pluginserver.Guard(func() error { return keeper.Forget(ctx, request.GetPlace()) }))
}

func (s *server) keeper() (Keeper, error) {
	e, err := s.ready()
	if err != nil {
		return nil, err
	}
	keeper, ok := e.(Keeper)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "the plugin keeps no project folders that could be named")
	}
	return keeper, nil
}

// Close implements executorv1.ExecutorServer.
func (s *server) Close(context.Context, *executorv1.CloseRequest) (*executorv1.CloseResponse, error) {
	s.mu.Lock()
	e, closed := s.executor, s.closed
	s.closed = true
	s.mu.Unlock()
	if e == nil || closed {
		return &executorv1.CloseResponse{}, nil
	}
	return &executorv1.CloseResponse{}, wire.Status(pluginserver.Guard(e.Close))
}
