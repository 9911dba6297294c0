package fake

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/event"
)

// server is the step-runner of all environments of one executor: which of them a call is about, the connection says.
type server struct {
	runnerv1.UnimplementedStepRunnerServer
	grpc *grpc.Server
	*listener
}

// listener takes connections that are made in this process.
type listener struct {
	conns chan net.Conn
	done  context.Context
	end   context.CancelFunc
}

// buffer is how much a connection buffers, in bytes: there may be thousands.
const buffer = 2 << 10

func newServer() *server {
	s := &server{listener: &listener{conns: make(chan net.Conn)}}
	s.done, s.end = context.WithCancel(context.Background())
	s.grpc = grpc.NewServer(grpc.ReadBufferSize(buffer), grpc.WriteBufferSize(buffer))
	runnerv1.RegisterStepRunnerServer(s.grpc, s)
	go func() { _ = s.grpc.Serve(s.listener) }()
	return s
}

func (s *server) stop() {
	s.end()
	s.grpc.Stop()
}

// connect makes a connection that is about an environment, and ends with it.
func (s *server) connect(life context.Context, w *world) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case s.conns <- &tagged{theirs, w}:
	case <-s.done.Done():
		return nil, net.ErrClosed
	}
	context.AfterFunc(life, func() { _ = theirs.Close() })
	return ours, nil
}

// Accept implements net.Listener.
func (s *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-s.conns:
		return conn, nil
	case <-s.done.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *listener) Close() error {
	s.end()
	return nil
}

// Addr implements net.Listener.
func (s *listener) Addr() net.Addr { return address{} }

// tagged is a connection that knows what it is about.
type tagged struct {
	net.Conn
	world *world
}

// RemoteAddr implements net.Conn.
func (t *tagged) RemoteAddr() net.Addr { return address{t.world} }

// address is that of an environment.
type address struct{ world *world }

// Network implements net.Addr.
func (address) Network() string { return "fake" }

func (a address) String() string {
	if a.world == nil {
		return "fake"
	}
	return a.world.name
}

// about is the environment of a call.
func about(ctx context.Context) (*world, error) {
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.Addr.(address); ok && a.world != nil {
			return a.world, nil
		}
	}
	return nil, status.Error(codes.Internal, "the call is about no environment")
}

// run is the run of a call.
func run(ctx context.Context, id string) (*Run, error) {
	w, err := about(ctx)
	if err != nil {
		return nil, err
	}
	if r := w.find(id); r != nil {
		return r, nil
	}
	return nil, status.Errorf(codes.NotFound, "there is no run with the id %q", id)
}

// Run implements runnerv1.StepRunnerServer.
func (s *server) Run(ctx context.Context, request *runnerv1.RunRequest) (*runnerv1.RunResponse, error) {
	w, err := about(ctx)
	if err != nil {
		return nil, err
	}
	return &runnerv1.RunResponse{Started: w.begin(request, w.do)}, nil
}

var states = map[event.Status]runnerv1.State{
	event.Running: runnerv1.State_STATE_RUNNING, event.Success: runnerv1.State_STATE_SUCCESS, event.Failure: runnerv1.State_STATE_FAILURE,
	event.Cancelled: runnerv1.State_STATE_CANCELLED,
}

var kinds = map[event.ErrorKind]runnerv1.ErrorKind{
	event.ErrorStep: runnerv1.ErrorKind_ERROR_KIND_STEP, event.ErrorTimeout: runnerv1.ErrorKind_ERROR_KIND_TIMEOUT,
	event.ErrorDefinition: runnerv1.ErrorKind_ERROR_KIND_DEFINITION, event.ErrorDenied: runnerv1.ErrorKind_ERROR_KIND_DENIED,
	event.ErrorNotFound: runnerv1.ErrorKind_ERROR_KIND_NOT_FOUND, event.ErrorCancelled: runnerv1.ErrorKind_ERROR_KIND_CANCELLED,
	event.ErrorSystem: runnerv1.ErrorKind_ERROR_KIND_SYSTEM,
}

func (r *Run) message() *runnerv1.RunStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &runnerv1.RunStatus{
		Id: r.Request.GetId(), State: states[r.status], Started: timestamppb.New(r.started), LogBytes: r.log, LastEvent: int64(len(r.events)),
	}
	if r.status != event.Running {
		out.Finished = timestamppb.New(r.ended)
	}
	if r.err != nil {
		out.Error = &runnerv1.Error{Code: string(r.err.Code), Kind: kinds[r.err.Kind], Message: r.err.Message}
	}
	return out
}

// Status implements runnerv1.StepRunnerServer.
func (s *server) Status(ctx context.Context, request *runnerv1.StatusRequest) (*runnerv1.StatusResponse, error) {
	out := &runnerv1.StatusResponse{}
	if request.GetId() != "" {
		r, err := run(ctx, request.GetId())
		if err != nil {
			return nil, err
		}
		out.Runs = append(out.Runs, r.message())
		return out, nil
	}
	w, err := about(ctx)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		out.Runs = append(out.Runs, r.message())
	}
	return out, nil
}

// follow passes on the events of a run until it ends.
func (r *Run) follow(ctx context.Context, after int64, send func([]*runnerv1.Event) error) error {
	for {
		events, more := r.since(after)
		if len(events) > 0 {
			if err := send(events); err != nil {
				return err
			}
			after = events[len(events)-1].GetSeq()
		}
		if more == nil {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// batch is how many events one message holds at most.
const batch = 256

// FollowSteps implements runnerv1.StepRunnerServer.
func (s *server) FollowSteps(request *runnerv1.FollowStepsRequest, stream grpc.ServerStreamingServer[runnerv1.FollowStepsResponse]) error {
	r, err := run(stream.Context(), request.GetId())
	if err != nil {
		return err
	}
	return r.follow(stream.Context(), request.GetAfter(), func(events []*runnerv1.Event) error {
		for len(events) > 0 {
			out := &runnerv1.FollowStepsResponse{}
			for _, e := range events[:min(batch, len(events))] {
				if e.GetLog() == nil || request.GetLogs() {
					out.Events = append(out.Events, e)
				}
			}
			events = events[min(batch, len(events)):]
			if err := stream.Send(out); err != nil {
				return err
			}
		}
		return nil
	})
}

// FollowLogs implements runnerv1.StepRunnerServer.
func (s *server) FollowLogs(request *runnerv1.FollowLogsRequest, stream grpc.ServerStreamingServer[runnerv1.FollowLogsResponse]) error {
	r, err := run(stream.Context(), request.GetId())
	if err != nil {
		return err
	}
	return r.follow(stream.Context(), 0, func(events []*runnerv1.Event) error {
		for _, e := range events {
			skip := request.GetOffset() - e.GetLog().GetOffset()
			if data := e.GetLog().GetData(); int64(len(data)) > max(skip, 0) {
				if err := stream.Send(&runnerv1.FollowLogsResponse{Data: data[max(skip, 0):]}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Cancel implements runnerv1.StepRunnerServer.
func (s *server) Cancel(ctx context.Context, request *runnerv1.CancelRequest) (*runnerv1.CancelResponse, error) {
	r, err := run(ctx, request.GetId())
	if err != nil {
		return nil, err
	}
	code := event.Code(request.GetCode())
	if code == "" {
		code = event.CodeCancelledByClient
	}
	r.stop(&event.Stop{Code: code, Reason: request.GetReason()})
	return &runnerv1.CancelResponse{}, nil
}

// Close implements runnerv1.StepRunnerServer.
func (s *server) Close(ctx context.Context, request *runnerv1.CloseRequest) (*runnerv1.CloseResponse, error) {
	r, err := run(ctx, request.GetId())
	if err != nil {
		return &runnerv1.CloseResponse{}, nil
	}
	r.stop(context.Canceled)
	if err := r.follow(ctx, 1<<62, func([]*runnerv1.Event) error { return nil }); err != nil {
		return nil, err
	}
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	delete(r.world.runs, request.GetId())
	return &runnerv1.CloseResponse{}, nil
}
