// Package github speaks the protocol of GitHub's Actions toolkit with one process: the files that it writes outputs and
// variables to, the commands and problems in what it prints, the variables that describe its environment, and the functions
// that GitHub's expressions are compiled to.
//
//	process ── stdout, stderr ──> filter ──> commands: masks, annotations, outputs, state, …      ──> engine.ToolkitResult
//	   │                             │──> problem matchers ──> annotations                             and events
//	   │                             '──> text ──> the log
//	   '────── files: GITHUB_OUTPUT, GITHUB_ENV, GITHUB_PATH, GITHUB_STATE, GITHUB_STEP_SUMMARY, GITHUB_ARTIFACTS
//
// What is the same for all processes of a run (problem matchers, declared subjects, the event's file, services) is made when it is
// first needed and kept with engine.ToolkitProcess.Once.
//
// Sources: GitHub's documentation of workflow commands and of default variables, and the behaviour of actions/runner.
// Where we differ:
//   - Text passes before its line is complete. What is before a "##[command]" in its line stays in the log, as a line of its own.
//   - Only ASCII blanks may be before a "::command::".
//   - GITHUB_ENV cannot set what the runner itself sets (GITHUB_SHA, RUNNER_TEMP, …): GitHub ignores that, and here a warning says so.
//     Other names that begin with GITHUB_ or RUNNER_, and CI, are free.
//   - Expressions of problem matchers are matched in linear time, so they cannot look around or back. A matcher with one that does
//     is left out, with a warning.
//   - Masks have a shortest length (mask.MinLength); a warning says so.
package github

import (
	"io"
	"sync"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/value"
)

// fileVariables name the files of the protocol, each with the file's name.
var fileVariables = map[string]string{
	"GITHUB_OUTPUT":         "output",
	"GITHUB_ENV":            "env",
	"GITHUB_PATH":           "path",
	"GITHUB_STATE":          "state",
	"GITHUB_STEP_SUMMARY":   "summary",
	"GITHUB_ARTIFACTS":      "artifacts",
	"GITHUB_ARTIFACTS_LIST": "artifacts_list", // for the process to read
}

// Session is a conversation with one process.
type Session struct {
	process engine.ToolkitProcess
	files   *fileSet
	job     *job
	env     map[string]string
	debug   bool
	filters []*filter

	mu          sync.Mutex // both streams of the process bring commands
	outputs     map[string]value.Value
	exports     map[string]string
	pathFirst   []string // that PATH gets, the last one first
	state       map[string]string
	echo        bool // commands are shown too
	stopped     bool // commands are text, until a line "::token::"
	token       string
	warned      map[string]bool // deprecated commands that the log has a warning about
	annotations int
	err         error // the first mistake
}

// Begin makes the files of a session. It is an engine.Toolkit.
func Begin(p engine.ToolkitProcess) (engine.ToolkitSession, error) {
	job, err := jobOf(p.Once)
	if err != nil {
		return nil, err
	}
	s := newSession(p, job)
	list, err := job.subjectList()
	if err != nil {
		return nil, err
	}
	if s.files, err = job.takeFiles(p.TempDir, list); err != nil {
		return nil, err
	}
	if s.env, err = s.variables(); err != nil {
		return nil, err
	}
	s.checkNode()
	return s, nil
}

func newSession(p engine.ToolkitProcess, job *job) *Session {
	debug := debugging(p)
	return &Session{
		process: p, job: job, debug: debug, echo: debug,
		outputs: map[string]value.Value{}, exports: map[string]string{}, state: earlierState(p), warned: map[string]bool{},
	}
}

func (s *Session) folders() jobFolders { return jobFolders{s.process.WorkDir, s.process.TempDir} }

// Env returns the variables that the process needs.
func (s *Session) Env() map[string]string { return s.env }

// Output returns a writer for one stream of the process, which passes on to next what is not a command.
func (s *Session) Output(next io.Writer) io.Writer {
	f := &filter{session: s, next: next}
	s.filters = append(s.filters, f)
	return f
}
