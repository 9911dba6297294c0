package executortest

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/service"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/lock"
)

// StepRunner is a step-runner in this process, with no components but those of the work directory.
type StepRunner struct {
	service *service.Service
	server  *service.Server
}

// NewStepRunner makes one.
func NewStepRunner() (*StepRunner, error) {
	s, err := service.New(service.Options{
		Parse: gitlabsteps.ParseSteps,
		Engine: func() engine.Options {
			return engine.Options{
				HostEnv:        os.Environ(),
				ParseReference: func(text string) (*plan.Reference, error) { return gitlabsteps.ParseStaticReference(text, diag.Span{}) },
			}
		},
		Sources: func(_, workDir string, _ *lock.File) (source.Source, error) {
			return &source.Resolver{Local: &source.Local{Parse: gitlabsteps.ParseFile, WorkDir: workDir}}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &StepRunner{service: s, server: service.NewServer(s, service.Access{})}, nil
}

// Serve takes connections until the listener is closed.
func (r *StepRunner) Serve(listener net.Listener) error { return r.server.Serve(listener) }

// Close kills what runs and ends all connections.
func (r *StepRunner) Close() {
	now, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	r.server.Stop(now)
	r.service.Close()
}
