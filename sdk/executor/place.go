package executor

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"

	executorv1 "github.com/rungci/rung/api/rung/executor/v1"
	"github.com/rungci/rung/executor/plugin/wire"
	"github.com/rungci/rung/sdk/internal/pluginserver"
)

// maxReports bounds how many reports of one preparation are kept for a call that joins it.
const maxReports = 10_000

// place is an environment, from the moment at which it is asked for.
type place struct {
	cancel context.CancelFunc
	ready  chan struct{} // closed when env or err is there
	env    Environment
	err    error

	mu       sync.Mutex
	reports  []*executorv1.Preparing
	reported chan struct{} // closed, and made again, with each report
}

func (p *place) report(r Preparing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.reports) < maxReports {
		p.reports = append(p.reports, wire.EncodePreparing(r))
		close(p.reported)
		p.reported = make(chan struct{})
	}
}

// since are the reports from a number on, and what is closed when there are more.
func (p *place) since(n int) ([]*executorv1.Preparing, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reports[n:], p.reported
}

// cleaned remembers the environments that were cleaned up last: a call that comes late must not make them again.
type cleaned struct {
	ids   map[string]bool
	order []string
}

const maxCleaned = 4096

func (c *cleaned) add(id string) {
	if c.ids[id] {
		return
	}
	c.ids[id] = true
	if c.order = append(c.order, id); len(c.order) > maxCleaned {
		delete(c.ids, c.order[0])
		c.order = c.order[1:]
	}
}

// begin begins to make the environment of an ID, or joins whoever does.
func (s *server) begin(id string, begin func(context.Context, Executor, *place) (Environment, error)) (*place, error) {
	e, err := s.ready()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.places[id]; p != nil {
		return p, nil
	}
	if id == "" || s.over.ids[id] {
		return nil, wire.Status(&Gone{Reason: "the environment was cleaned up before it was asked for", Err: ErrClosed})
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &place{cancel: cancel, ready: make(chan struct{}), reported: make(chan struct{})}
	s.places[id] = p
	go func() {
		defer close(p.ready)
		p.err = pluginserver.Guard(func() (err error) {
			if p.env, err = begin(ctx, e, p); err == nil && p.env == nil {
				err = errors.New("the plugin returned neither an environment nor an error")
			}
			return err
		})
	}()
	return p, nil
}

// Prepare implements executorv1.ExecutorServer.
func (s *server) Prepare(request *executorv1.PrepareRequest, stream grpc.ServerStreamingServer[executorv1.PrepareResponse]) error {
	p, err := s.begin(request.GetEnvironment(), func(ctx context.Context, e Executor, p *place) (Environment, error) {
		return e.Prepare(ctx, wire.DecodeJob(request.GetJob()), p.report)
	})
	if err != nil {
		return err
	}
	for sent, over := 0, false; ; {
		reports, more := p.since(sent)
		for _, r := range reports {
			if err := stream.Send(&executorv1.PrepareResponse{Content: &executorv1.PrepareResponse_Preparing{Preparing: r}}); err != nil {
				return err
			}
		}
		sent += len(reports)
		if over {
			break
		}
		select {
		case <-more:
		case <-p.ready:
			over = true
		case <-stream.Context().Done():
			return wire.Status(context.Cause(stream.Context()))
		}
	}
	if p.err != nil {
		return wire.Status(p.err)
	}
	return stream.Send(&executorv1.PrepareResponse{Content: &executorv1.PrepareResponse_Environment{Environment: wire.EncodeEnvironment(p.env)}})
}

// Recover implements executorv1.ExecutorServer.
func (s *server) Recover(ctx context.Context, request *executorv1.RecoverRequest) (*executorv1.RecoverResponse, error) {
	id := request.GetEnvironment()
	p, err := s.begin(id, func(ctx context.Context, e Executor, _ *place) (Environment, error) {
		return e.Recover(ctx, wire.DecodeHandle(request.GetHandle()))
	})
	if err != nil {
		return nil, err
	}
	out := &executorv1.RecoverResponse{}
	err = s.with(ctx, id, func(env Environment) error {
		out.Environment = wire.EncodeEnvironment(env)
		return nil
	})
	if p.err != nil && ctx.Err() == nil {
		s.forget(id, p)
	}
	return out, err
}

// forget lets go of an environment that there is none of.
func (s *server) forget(id string, p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places[id] == p {
		delete(s.places, id)
	}
}

// Cleanup implements executorv1.ExecutorServer.
func (s *server) Cleanup(ctx context.Context, request *executorv1.CleanupRequest) (*executorv1.CleanupResponse, error) {
	id, out := request.GetEnvironment(), &executorv1.CleanupResponse{}
	s.mu.Lock()
	p := s.places[id]
	s.over.add(id)
	s.mu.Unlock()
	if p == nil {
		return out, nil
	}
	p.cancel()
	select {
	case <-p.ready:
	case <-ctx.Done():
		return nil, wire.Status(context.Cause(ctx))
	}
	if p.err == nil {
		if err := pluginserver.Guard(func() error { return p.env.Close(ctx) }); err != nil {
			return nil, wire.Status(err)
		}
	}
	s.forget(id, p)
	return out, nil
}
