//go:build unix

package plugin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/none"
	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/executor/plugin/plugintest"
	sdk "github.com/rungci/rung/sdk/executor"
)

// plays is the variable that makes the test binary a plugin: the name of one of plugins.
const plays = "RUNG_TEST_PLAYS"

// ownerPlugin is the variable that says which plugin the killed owner of an environment has; empty is none.
const ownerPlugin = "RUNG_TEST_OWNER_PLUGIN"

// plugins are those that the test binary can be.
var plugins = map[string]sdk.Plugin{
	"none": {Name: "none", Level: "none", Open: func(ctx context.Context, setup sdk.Setup, _ json.RawMessage) (sdk.Executor, error) {
		return none.New(ctx, setup, none.Options{})
	}},
}

// levels are those of plugins that the suite tries in another way than none.
var levels = map[string]func() executortest.Level{}

func TestMain(m *testing.M) {
	if name := os.Getenv(plays); name != "" {
		if lie, ok := strings.CutPrefix(name, "liar "); ok {
			lieTo(lie)
			return
		}
		if provider, ok := strings.CutPrefix(name, "provider "); ok {
			provideTo(provider)
			return
		}
		p, ok := plugins[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "there is no plugin", name)
			os.Exit(2)
		}
		sdk.Serve(p)
		return
	}
	plugin.Hurry()
	executortest.Main(m, func() (executortest.Level, error) {
		name := os.Getenv(ownerPlugin)
		if name == "wrap" {
			return wrapped(wrap(os.Getenv(builtWrap), nice)), nil
		}
		if level := levels[name]; level != nil {
			return level(), nil
		}
		return overTheWire("none"), nil
	})
}

// config is that of a plugin that this binary is.
func config(name string) plugin.Config {
	return plugin.Config{Name: name, File: os.Args[0], Env: []string{plays + "=" + name}}
}

func overTheWire(name string) executortest.Level {
	l := plugintest.Level(config(name), nil)
	l.Stalls = map[string]func(*testing.T, executor.Environment){
		"the plugin is stopped, and does not answer": func(t *testing.T, env executor.Environment) {
			if err := syscall.Kill(plugin.PID(env), syscall.SIGSTOP); err != nil {
				t.Error(err)
			}
		},
	}
	return l
}

// owned is one of levels, which the suite's other process has, too.
func owned(name string) executortest.Level {
	l := levels[name]()
	l.Env = append(l.Env, ownerPlugin+"="+name)
	return l
}

func TestConformanceOfNoneOverTheWire(t *testing.T) {
	t.Parallel()
	executortest.Run(t, overTheWire("none"))
}
