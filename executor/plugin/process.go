package plugin

import (
	"context"
	"time"

	executorv1 "github.com/rungci/rung/api/rung/executor/v1"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/plugin/wire"
	"github.com/rungci/rung/internal/pluginhost"
)

// process is one process of an executor plugin, open for jobs.
type process struct {
	*pluginhost.Process
	rpc       executorv1.ExecutorClient
	described *executorv1.DescribeResponse
	can       executor.Capabilities
	silence   time.Duration // of Prepare
}

// call is a call of a plugin that is under way.
type call = pluginhost.Call

// started starts a process of the plugin from a file. It must be opened before it is used.
func started(ctx context.Context, c *Config, file string) (*process, error) {
	p, err := ExecutorKind.Start(ctx, c, file)
	if err != nil {
		return nil, err
	}
	return &process{Process: p, rpc: executorv1.NewExecutorClient(p.Conn), silence: limits.silence}, nil
}

// open configures the process.
func (p *process) open(ctx context.Context, request *executorv1.OpenRequest) error {
	var first *executorv1.OpenResponse
	err := p.Attend(ctx, limits.silence, func(living context.Context) (func() error, error) {
		stream, err := p.rpc.Open(living, request)
		if err != nil {
			return nil, err
		}
		return func() error {
			response, err := stream.Recv()
			if first == nil {
				first = response
			}
			return err
		}, nil
	})
	if err == nil {
		p.can = wire.DecodeCapabilities(first.GetCapabilities())
	}
	return err
}
