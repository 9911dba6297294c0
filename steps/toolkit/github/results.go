package github

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
)

// MaxSummary bounds what a step writes about itself, in bytes. A longer summary is left out, which is an error in the log and no failure.
const MaxSummary = 1 << 20

// End passes on what the streams still hold back and reads the files. The outputs are strings; the exports hold PATH when
// the process added to it. What was read before a mistake is returned with it.
func (s *Session) End() (engine.ToolkitResult, error) {
	for _, f := range s.filters {
		f.end()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.ownVoice()
	for _, read := range []func(*filter) error{s.readOutputs, s.readVariables, s.readFolders, s.readState, s.readSummary, s.declareSubjects} {
		if err := read(own); err != nil {
			s.fail(own, err)
		}
	}
	_ = own.flush() // the log takes everything
	s.putFoldersFirst()
	s.tellNotes()
	s.job.giveFiles(s.files)
	return engine.ToolkitResult{Outputs: s.outputs, Exports: s.exports, State: s.state}, s.err
}

// ownVoice is what the runner itself writes to the log with.
func (s *Session) ownVoice() *filter {
	if len(s.filters) > 0 {
		return s.filters[0]
	}
	return &filter{session: s, next: io.Discard}
}

// fail notes the first mistake of the process, for which the step fails, and says each in the log.
func (s *Session) fail(f *filter, err error) {
	f.show(event.Annotation{Level: event.AnnotationError, Message: err.Error()})
	if s.err == nil {
		s.err = err
	}
}

func (s *Session) readOutputs(*filter) error {
	pairs, err := s.read("GITHUB_OUTPUT")
	for _, p := range pairs {
		s.outputs[p.name] = value.OfString(p.text)
	}
	return err
}

func (s *Session) readVariables(f *filter) error {
	pairs, err := s.read("GITHUB_ENV")
	for _, p := range pairs {
		s.export(f, p.name, p.text)
	}
	return err
}

func (s *Session) readState(*filter) error {
	pairs, err := s.read("GITHUB_STATE")
	for _, p := range pairs {
		s.state[p.name] = p.text
	}
	return err
}

// export sets a variable for later steps, unless it must not be set: the step goes on, as on GitHub.
func (s *Session) export(f *filter, name, text string) {
	_, own := s.env[strings.ToUpper(name)]
	switch {
	case strings.EqualFold(name, "NODE_OPTIONS"):
		f.show(event.Annotation{Level: event.AnnotationError, Message: "NODE_OPTIONS cannot be set for later steps: it would put code into every Node program"})
	case own && !strings.EqualFold(name, "CI"):
		f.warn(fmt.Sprintf("%s was not set for later steps: it is the runner's own", shorten(name)))
	default:
		s.exports[name] = text
	}
}

// readFolders reads the folders that PATH begins with in later steps.
func (s *Session) readFolders(*filter) error {
	text, err := s.readText("GITHUB_PATH", MaxFile)
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			s.addFolder(line)
		}
	}
	return err
}

func (s *Session) addFolder(dir string) {
	s.pathFirst = append(slices.DeleteFunc(s.pathFirst, func(d string) bool { return d == dir }), dir)
}

// putFoldersFirst puts the folders that were added before PATH, the last of them first. Where they were in it before they are needless.
func (s *Session) putFoldersFirst() {
	if len(s.pathFirst) == 0 {
		return
	}
	dirs := slices.Clone(s.pathFirst)
	slices.Reverse(dirs)
	path, ok := s.exports["PATH"]
	if !ok {
		path = s.process.Getenv("PATH")
	}
	for dir := range strings.SplitSeq(path, string(os.PathListSeparator)) {
		if dir != "" && !slices.Contains(s.pathFirst, dir) {
			dirs = append(dirs, dir)
		}
	}
	s.exports["PATH"] = strings.Join(dirs, string(os.PathListSeparator))
}

// readSummary tells what the process wrote about itself for people.
func (s *Session) readSummary(f *filter) error {
	text, err := s.readText("GITHUB_STEP_SUMMARY", MaxSummary)
	switch {
	case errors.Is(err, errTooLarge):
		f.show(event.Annotation{Level: event.AnnotationError, Message: err.Error() + "; the summary is left out"})
		return nil
	case err == nil && text != "":
		f.tell(event.Summary{Markdown: strings.ToValidUTF8(text, "\uFFFD")})
	}
	return err
}

// stateVariables are what the earlier processes of the step left for this one.
func stateVariables(state map[string]string) map[string]string {
	vars := make(map[string]string, len(state))
	for name, text := range state {
		vars["STATE_"+name] = text
	}
	return vars
}

// earlierState is the state that this process adds to.
func earlierState(p engine.ToolkitProcess) map[string]string {
	if p.State == nil {
		return map[string]string{}
	}
	return maps.Clone(p.State)
}
