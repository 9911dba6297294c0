// Package plugintest tries instance-group plugins with the suite that every group passes, from outside: it knows nothing of a plugin but its file.
package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/grouptest"
	"github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/fleet/group/plugin/paid"
	"github.com/rungci/rung/internal/plugintrial"
	"github.com/rungci/rung/internal/tempfolder"
)

// Trial is a plugin to be tried by somebody who has no Go: the suite runs in a program.
type Trial struct {
	Plugin plugin.Config `json:"plugin"`
	// Only leaves out cases whose sentence does not have this text in it.
	Only string `json:"only,omitempty"`
	// Paid is what a trial may cost that costs money; nil: it costs nothing.
	Paid *paid.Terms `json:"paid,omitempty"`
	// Log takes what the plugin says while it is tried; nil is nobody. When it is opened before, that is Plugin.Log.
	Log io.Writer `json:"-"`
}

// trialVariable hands the trial to the process that runs the suite.
const trialVariable = "RUNG_GROUP_PLUGIN_TRIAL"

// room is how many instances a group must have room for: cases make two at once.
const room = 2

// Subject is a plugin as the suite tries it. Cases are tried one after the other, as a cloud may not tell their owners apart.
func Subject(config plugin.Config) grouptest.Subject {
	return grouptest.Subject{
		Open:     func(*testing.T) group.Basic { return plugin.New(config) },
		Settings: group.Settings{ConnectorConfig: group.ConnectorConfig{Username: "ci"}},
		Shared:   true,
		Kill: func(t *testing.T, b group.Basic) {
			process, err := os.FindProcess(b.(interface{ PID() int }).PID())
			if err == nil {
				err = process.Kill()
			}
			if err != nil {
				t.Error(err)
			}
		},
	}
}

// Run tries a plugin and calls each with every case when it has ended. args start this program again, so that it calls Child. The error says
// why the plugin could not be tried.
func (trial *Trial) Run(ctx context.Context, args []string, each func(plugintrial.Result)) (passed bool, err error) {
	if _, err := trial.open(ctx); err != nil {
		return false, err // which says it better than the suite, which would say it in each case
	}
	return trial.suite(ctx, args, each)
}

// suite runs the suite in another process.
func (trial *Trial) suite(ctx context.Context, args []string, each func(plugintrial.Result)) (passed bool, err error) {
	text, err := json.Marshal(trial)
	if err != nil {
		return false, err
	}
	return plugintrial.Run(ctx, args, []string{trialVariable + "=" + string(text)}, trial.Log, each)
}

// open opens the plugin once, and shuts it down. The offers are those that it has.
func (trial *Trial) open(ctx context.Context) (offers []group.Offer, err error) {
	state, err := tempfolder.Make("state")
	if err != nil {
		return nil, err
	}
	defer tempfolder.Remove(state)
	g := plugin.New(trial.Plugin)
	info, err := g.Init(ctx, hclog.NewNullLogger(), group.Settings{Owner: "suite", State: state})
	if err != nil {
		return nil, err
	}
	if trial.Paid != nil && g.Abilities().Offers {
		offers, err = g.Offers(ctx)
	}
	if info.MaxSize < room {
		err = fmt.Errorf("the %s %q has room for %d instances, and the suite needs room for %d; change its options", plugin.Kind.Name, trial.Plugin.Name, info.MaxSize, room)
	}
	return offers, errors.Join(err, g.Shutdown(ctx))
}

// Child is the process that runs the suite. It ends the program, or returns an exit code. ok is false where this process is not one.
func Child() (code int, ok bool) {
	text := os.Getenv(trialVariable)
	if text == "" {
		return 0, false
	}
	var trial Trial
	if err := json.Unmarshal([]byte(text), &trial); err != nil {
		fmt.Fprintln(os.Stderr, "this is started by the test of a plugin:", err)
		return 1, true
	}
	subject := Subject(trial.Plugin)
	if trial.Paid != nil {
		if err := trial.charge(&subject); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1, true
		}
	}
	return plugintrial.Suite(trial.Only, func(t *testing.T) { grouptest.Run(t, subject) }), true
}
