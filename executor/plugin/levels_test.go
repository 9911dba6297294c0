//go:build linux

package plugin_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/cgroup"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/plugin/plugintest"
	"github.com/rungci/rung/executor/sandbox"
	"github.com/rungci/rung/executor/sandbox/direct"
	groups "github.com/rungci/rung/internal/cgroup"
	sdk "github.com/rungci/rung/sdk/executor"
	"github.com/rungci/rung/steps/containers"
)

// imagesVariable names the folder of saved images to the plugin of sandboxes.
const imagesVariable = "RUNG_TEST_IMAGES"

func init() {
	plugins["cgroup"] = sdk.Plugin{Name: "cgroup", Level: executor.CGroup, Open: func(ctx context.Context, setup sdk.Setup, _ json.RawMessage) (sdk.Executor, error) {
		return cgroup.New(ctx, setup, cgroup.Options{})
	}}
	plugins["sandbox"] = sdk.Plugin{
		Name: "sandbox", Level: executor.Sandbox, PrepareSilence: time.Minute,
		Open: func(ctx context.Context, setup sdk.Setup, _ json.RawMessage) (sdk.Executor, error) {
			images := os.Getenv(imagesVariable)
			return sandbox.New(ctx, setup, sandbox.Options{
				Way: sandbox.Directly, Direct: direct.Options{Runsc: os.Getenv(enginetest.RunscVariable), Saved: images, Cache: filepath.Join(images, ".cache")},
			})
		},
	}
	levels["cgroup"] = func() executortest.Level { return plugintest.Level(config("cgroup"), nil) }
	levels["sandbox"] = func() executortest.Level {
		return inSandboxes(os.Getenv(enginetest.RunscVariable), os.Getenv(imagesVariable))
	}
}

// inSandboxes are jobs in sandboxes without an engine, over the wire.
func inSandboxes(runsc, images string) executortest.Level {
	c := config("sandbox")
	tools := []string{enginetest.RunscVariable + "=" + runsc, imagesVariable + "=" + images}
	c.Env = append(c.Env, tools...)
	l := plugintest.Level(c, func(id string) *executor.Job {
		return &executor.Job{ID: id, ProjectName: "project", Image: &containers.Image{Name: enginetest.Image, PullPolicies: []string{container.Never}}}
	})
	l.Running = func(dir string) (names []string, err error) {
		found, err := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range found {
			if line, _ := os.ReadFile(file); strings.HasPrefix(string(line), "runsc-sandbox") && strings.Contains(string(line), filepath.Join(dir, "temp")) {
				names = append(names, "sandbox "+filepath.Base(filepath.Dir(file)))
			}
		}
		return names, err
	}
	l.Env = append(tools, ownerPlugin+"=sandbox")
	return l
}

func TestConformanceOfControlGroupsOverTheWire(t *testing.T) {
	if _, err := groups.Open(); err != nil {
		t.Log(err)
		enginetest.Skip(t, "control groups")
	}
	t.Parallel()
	executortest.Run(t, owned("cgroup"))
}

func TestConformanceOfSandboxesOverTheWire(t *testing.T) {
	runsc := enginetest.Runsc(t)
	t.Parallel()
	images := t.TempDir()
	enginetest.Tree(t, filepath.Join(images, enginetest.Image))
	executortest.Run(t, inSandboxes(runsc, images))
}
