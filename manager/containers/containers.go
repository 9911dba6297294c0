// Package containers opens the level on which an entry's jobs have images: those of an engine, or of a cluster.
package containers

import (
	"context"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/docker"
	"github.com/rungci/rung/manager/kubernetes"
)

// Open makes level container or sandbox of an entry.
func Open(ctx context.Context, r *config.Runner, level executor.Level, setup executor.Setup) (executor.Executor, error) {
	switch {
	case r.Executor == config.KubernetesExecutor:
		return kubernetes.Open(ctx, r.Kubernetes, r.BuildsDir, level, setup)
	case level == executor.Sandbox:
		return docker.OpenSandbox(ctx, r.Docker, setup)
	}
	return docker.Open(ctx, r.Docker, setup)
}

// Slot is where a job has its turn.
type Slot = docker.Slot

// Bound adds what the entry says of each job, as docker.Bound; what it says of pods is in their level.
func Bound(r *config.Runner, in Slot, what *executor.Job) {
	if r.Docker != nil && r.Executor != config.KubernetesExecutor {
		docker.Bound(r.Docker, in, what)
	}
}
