// Package github speaks the protocol of GitHub's Actions toolkit with one process: the files that it writes outputs and
// variables to, the commands in what it prints, the variables that it finds its place by, and the functions that GitHub's
// expressions need beyond those of our language.
//
// What a runner of GitHub's has beyond that (services for caches and artifacts, an event, a token, a tool cache, problem
// matchers, annotations, a page for summaries) is not here.
//
// Sources: GitHub's documentation of workflow commands and of default variables, and the behaviour of actions/runner.
package github

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/rungci/rung/steps/value"
)

// Process is the process that a session is with.
type Process struct {
	Dir       string                   // an empty folder for the session's files
	TempDir   string                   // RUNNER_TEMP: all steps of a run share it
	WorkDir   string                   // GITHUB_WORKSPACE
	ActionDir string                   // GITHUB_ACTION_PATH
	Getenv    func(name string) string // the process's environment without what the session adds
	Mask      func(secret string)      // called before anything that the process writes later is passed on
}

// fileVariables name the files that a process may write to, each with the file's name.
var fileVariables = map[string]string{
	"GITHUB_OUTPUT":       "output",
	"GITHUB_ENV":          "env",
	"GITHUB_PATH":         "path",
	"GITHUB_STATE":        "state",
	"GITHUB_STEP_SUMMARY": "summary",
}

// Session is a conversation with one process.
type Session struct {
	process Process
	filters []*filter

	mu      sync.Mutex // both streams of the process bring commands
	outputs map[string]value.Value
	echo    bool            // commands are shown too
	stopped string          // the word that makes commands count again; "" while they do
	warned  map[string]bool // deprecated commands that the log has a warning about
	err     error           // the first mistake
}

// Begin makes the files of a session.
func Begin(p Process) (*Session, error) {
	for _, name := range fileVariables {
		if err := os.WriteFile(filepath.Join(p.Dir, name), nil, 0o600); err != nil {
			return nil, err
		}
	}
	return &Session{process: p, outputs: map[string]value.Value{}, warned: map[string]bool{}}, nil
}

// Env returns the variables that the process needs.
func (s *Session) Env() map[string]string {
	vars := map[string]string{
		"CI":                 "true",
		"GITHUB_ACTIONS":     "true",
		"GITHUB_WORKSPACE":   s.process.WorkDir,
		"GITHUB_ACTION_PATH": s.process.ActionDir,
		"RUNNER_TEMP":        s.process.TempDir,
		"RUNNER_OS":          runnerOS(),
		"RUNNER_ARCH":        runnerArch(),
	}
	for name, file := range fileVariables {
		vars[name] = filepath.Join(s.process.Dir, file)
	}
	return vars
}

func runnerOS() string {
	switch runtime.GOOS {
	case "darwin":
		return "macOS"
	case "windows":
		return "Windows"
	default:
		return "Linux"
	}
}

func runnerArch() string {
	switch runtime.GOARCH {
	case "amd64":
		return "X64"
	case "386":
		return "X86"
	default:
		return strings.ToUpper(runtime.GOARCH) // ARM, ARM64
	}
}

// Output returns a writer for one stream of the process, which passes on to next what is no command.
func (s *Session) Output(next io.Writer) io.Writer {
	f := &filter{session: s, next: next}
	s.filters = append(s.filters, f)
	return f
}

// End passes on what the streams still hold back and reads the files. The outputs are strings; the exports hold PATH when
// the process added to it.
func (s *Session) End() (outputs map[string]value.Value, exports map[string]string, err error) {
	for _, f := range s.filters {
		f.end()
	}
	if s.err != nil {
		return nil, nil, s.err
	}
	pairs, err := s.read("GITHUB_OUTPUT")
	if err != nil {
		return nil, nil, err
	}
	for _, p := range pairs {
		s.outputs[p.name] = value.OfString(p.text)
	}
	if pairs, err = s.read("GITHUB_ENV"); err != nil {
		return nil, nil, err
	}
	exports = make(map[string]string, len(pairs))
	for _, p := range pairs {
		if err := checkExport(p.name); err != nil {
			return nil, nil, fmt.Errorf("GITHUB_ENV: line %d: %w", p.line, err)
		}
		exports[p.name] = p.text
	}
	if err := s.addPaths(exports); err != nil {
		return nil, nil, err
	}
	return s.outputs, exports, nil
}

// checkExport refuses the variables that an action must not set for later steps.
func checkExport(name string) error {
	upper := strings.ToUpper(name)
	switch {
	case upper == "NODE_OPTIONS":
		return fmt.Errorf("%s cannot be set for later steps: it would put code into every Node program", name)
	case strings.HasPrefix(upper, "GITHUB_"), strings.HasPrefix(upper, "RUNNER_"):
		return fmt.Errorf("%s cannot be set for later steps: names that begin with GITHUB_ and RUNNER_ are the runner's own", name)
	}
	return nil
}

// addPaths puts the folders in GITHUB_PATH before PATH, the last of them first.
func (s *Session) addPaths(exports map[string]string) error {
	text, err := s.readText("GITHUB_PATH")
	if err != nil {
		return err
	}
	var dirs []string
	for rest := text; rest != ""; {
		var line string
		if line, _, rest = cutLine(rest); line != "" {
			dirs = append(slices.DeleteFunc(dirs, func(d string) bool { return d == line }), line)
		}
	}
	if len(dirs) == 0 {
		return nil
	}
	slices.Reverse(dirs)
	path, ok := exports["PATH"]
	if !ok {
		path = s.process.Getenv("PATH")
	}
	if path != "" {
		dirs = append(dirs, path)
	}
	exports["PATH"] = strings.Join(dirs, string(os.PathListSeparator))
	return nil
}

// fail notes the first mistake of the process.
func (s *Session) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}
