package plugintest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/executor/provider/providertest"
	"github.com/rungci/rung/internal/plugintrial"
	"github.com/rungci/rung/steps/containers"
)

// Trial is a plugin to be tried by somebody who has no Go: the suite runs in a program.
type Trial struct {
	Plugin plugin.Config `json:"plugin"`
	// Provider says that it is a provider plugin, as its kind says. Image and StepRunner are of no use to one.
	Provider bool `json:"provider,omitempty"`
	// Image is that of the suite's jobs, for levels that run images: one with a POSIX shell. Empty is none.
	Image string `json:"image,omitempty"`
	// StepRunner is the file of a step-runner for the environments.
	StepRunner string `json:"step_runner"`
	// Only leaves out cases whose sentence does not have this text in it.
	Only string `json:"only,omitempty"`
	// Log takes what the plugin says while it is tried; nil is nobody. When it is opened before, that is Plugin.Log.
	Log io.Writer `json:"-"`

	Room int `json:"room,omitempty"` // of a provider; Run asks for it
}

// Result is one case.
type Result = plugintrial.Result

const (
	// trialVariable hands the trial to the process that runs the suite. That has nothing but what its user has.
	trialVariable = "RUNG_PLUGIN_TRIAL"
	// programVariable is executortest's: the step-runner is not built.
	programVariable = "RUNG_TEST_PROGRAM"
)

// Run tries a plugin and calls each with every case when it has ended. args start this program again, so that it calls Child. The error says
// why the plugin could not be tried.
func (trial *Trial) Run(ctx context.Context, args []string, each func(Result)) (passed bool, err error) {
	if err := trial.open(ctx); err != nil {
		return false, err // which says it better than the suite, which would say it in each case
	}
	text, err := json.Marshal(trial)
	if err != nil {
		return false, err
	}
	return plugintrial.Run(ctx, args, []string{trialVariable + "=" + string(text), programVariable + "=" + trial.StepRunner}, trial.Log, each)
}

// open opens the plugin once, and closes it.
func (trial *Trial) open(ctx context.Context) error {
	var opened io.Closer
	var err error
	if trial.Provider {
		opened, err = trial.openProvider(ctx)
	} else {
		opened, err = plugin.Open(ctx, trial.Plugin, executor.Setup{Program: func(string, string) (string, error) { return trial.StepRunner, nil }})
	}
	if err != nil {
		return err
	}
	if err := opened.Close(); err != nil {
		return fmt.Errorf("closing the plugin that has run nothing: %w", err)
	}
	return nil
}

// Child is the process that runs the suite, or one that the suite kills. It ends the program, or returns an exit code. args are those of Trial.Run without the program.
func Child(args []string) int {
	var trial Trial
	if err := json.Unmarshal([]byte(os.Getenv(trialVariable)), &trial); err != nil {
		fmt.Fprintln(os.Stderr, "this is started by the test of a plugin:", err)
		return 1
	}
	if trial.Provider {
		return plugintrial.Suite(trial.Only, func(t *testing.T) { providertest.Run(t, Subject(trial.Plugin, trial.Room)) })
	}
	level := Level(trial.Plugin, trial.job())
	if trial.Image != "" {
		level.Running = nil // what runs in containers is not seen from here
	}
	if executortest.Own(func() (executortest.Level, error) { return level, nil }) {
		return 0
	}
	executortest.Again = args
	return plugintrial.Suite(trial.Only, func(t *testing.T) { executortest.Run(t, level) })
}

// job makes the jobs of the suite; nil is Level's own.
func (trial *Trial) job() func(string) *executor.Job {
	if trial.Image == "" {
		return nil
	}
	return func(id string) *executor.Job {
		return &executor.Job{ID: id, ProjectName: "project", Image: &containers.Image{Name: trial.Image}}
	}
}
