//go:build unix

package plugin_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/plugin/plugintest"
	sdk "github.com/rungci/rung/sdk/executor"
	"github.com/rungci/rung/steps/containers"
)

func init() {
	levels["container"] = inContainers
	plugins["container"] = sdk.Plugin{
		Name: "container", Level: executor.Container, PrepareSilence: 5 * time.Minute, // an image may take that long
		Open: func(ctx context.Context, setup sdk.Setup, _ json.RawMessage) (sdk.Executor, error) {
			return container.New(ctx, setup, container.Options{Engine: &container.Engine{Host: os.Getenv(enginetest.Variable), From: enginetest.Variable}})
		},
	}
}

// inContainers are jobs in containers, over the wire.
func inContainers() executortest.Level {
	c := config("container")
	c.Env = append(c.Env, enginetest.Variable+"="+os.Getenv(enginetest.Variable))
	l := plugintest.Level(c, func(id string) *executor.Job {
		return &executor.Job{ID: id, ProjectName: "project", Image: &containers.Image{Name: enginetest.Image, PullPolicies: []string{container.Never}}}
	})
	l.Running = func(dir string) (names []string, err error) {
		engine, err := client.New(client.WithHost(os.Getenv(enginetest.Variable)))
		if err != nil {
			return nil, err
		}
		defer engine.Close()
		found, err := engine.ContainerList(context.Background(), client.ContainerListOptions{Filters: client.Filters{}.Add("label", executortest.LabelName+"="+dir)})
		for _, one := range found.Items {
			names = append(names, one.Names[0])
		}
		return names, err
	}
	return l
}

func TestConformanceOfContainersOverTheWire(t *testing.T) {
	enginetest.Busybox(t)
	t.Parallel()
	executortest.Run(t, owned("container"))
}
