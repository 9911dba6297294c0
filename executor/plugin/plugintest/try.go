package plugintest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/executor/provider/providertest"
	"github.com/rungci/rung/steps/containers"
)

// Trial is a plugin to be tried by somebody who has no Go: the suite runs in a program.
type Trial struct {
	Plugin plugin.Config `json:"plugin"`
	// Provider says that it is a provider plugin, which plugin.Provides finds out. Image and StepRunner are of no use to one.
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
type Result struct {
	// Case is what was tried, as a sentence.
	Case string
	// Passed says that the plugin does that; Skipped that this machine cannot try it.
	Passed, Skipped bool
	// Details say what is wrong instead, a line each.
	Details []string
}

const (
	// trialVariable hands the trial to the process that runs the suite. That has nothing but what its user has.
	trialVariable = "RUNG_PLUGIN_TRIAL"
	// suiteName is the test that all cases are part of.
	suiteName = "suite"
	// programVariable is executortest's: the step-runner is not built.
	programVariable = "RUNG_TEST_OWNER_PROGRAM"
	maxLine         = 1 << 20
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
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), trialVariable+"="+string(text), programVariable+"="+trial.StepRunner)
	cmd.Stderr = trial.Log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	failed, count := results(out, each)
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case count == 0:
		return false, errors.Join(errors.New("no case was tried"), err)
	case err != nil && (!errors.As(err, &exit) || failed == 0):
		return false, fmt.Errorf("the suite has ended before all was tried: %w", err)
	}
	return failed == 0, nil
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

// ended is the line with which package testing ends a case, and marked one that says which case the next lines are of.
var (
	ended  = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)
	marked = regexp.MustCompile(`^=== (?:RUN|CONT|NAME|PAUSE)\s+(\S+)`)
	place  = regexp.MustCompile(`^\s+\w+\.go:\d+: `)
)

// results reads what package testing writes.
func results(in io.Reader, each func(Result)) (failed, count int) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	details, now := map[string][]string{}, ""
	for lines.Scan() {
		line := lines.Text()
		if m := marked.FindStringSubmatch(line); m != nil {
			now = m[1]
			continue
		}
		m := ended.FindStringSubmatch(line)
		if m == nil {
			details[now] = append(details[now], place.ReplaceAllString(line, ""))
			continue
		}
		name, ok := strings.CutPrefix(m[2], suiteName+"/")
		if !ok {
			continue
		}
		result := Result{Case: strings.ReplaceAll(strings.ReplaceAll(name, "/", ": "), "_", " "), Passed: m[1] == "PASS", Skipped: m[1] == "SKIP"}
		if !result.Passed {
			result.Details = details[m[2]]
		}
		if m[1] == "FAIL" {
			failed++
		}
		count++
		each(result)
	}
	return failed, count
}

// Child is the process that runs the suite, or one that the suite kills. It ends the program, or returns an exit code. args are those of Trial.Run without the program.
func Child(args []string) int {
	var trial Trial
	if err := json.Unmarshal([]byte(os.Getenv(trialVariable)), &trial); err != nil {
		fmt.Fprintln(os.Stderr, "this is started by the test of a plugin:", err)
		return 1
	}
	if trial.Provider {
		return runSuite(trial.Only, func(t *testing.T) { providertest.Run(t, Subject(trial.Plugin, trial.Room)) })
	}
	level := Level(trial.Plugin, trial.job())
	if trial.Image != "" {
		level.Running = nil // what runs in containers is not seen from here
	}
	if executortest.Own(func() (executortest.Level, error) { return level, nil }) {
		return 0
	}
	executortest.Again = args
	return runSuite(trial.Only, func(t *testing.T) { executortest.Run(t, level) })
}

// runSuite ends the program, or returns an exit code.
func runSuite(only string, suite func(*testing.T)) int {
	testing.Init()
	only = strings.ReplaceAll(regexp.QuoteMeta(only), " ", "_")
	if err := flag.CommandLine.Parse([]string{"-test.v", "-test.run", "^" + suiteName + "$/" + only}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	testing.Main(regexp.MatchString, []testing.InternalTest{{Name: suiteName, F: suite}}, nil, nil) // which ends the program
	return 0
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
