package github

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rungci/rung/steps/event"
)

// labels are how the log shows the level of an annotation.
var labels = map[event.AnnotationLevel]string{
	event.AnnotationNotice: "Notice: ", event.AnnotationWarning: "Warning: ", event.AnnotationError: "Error: ",
}

// annotate returns the handler of ::error::, ::warning:: or ::notice::.
func annotate(level event.AnnotationLevel) func(*filter, command) error {
	return func(f *filter, c command) error {
		a := event.Annotation{Level: level, Message: c.data, Title: c.properties["title"], File: f.session.folders().relative(c.properties["file"])}
		a.Line, a.EndLine, a.Column, a.EndColumn = position(c.properties)
		f.show(a)
		return nil
	}
}

// position reads where in a file a message belongs to. What makes no sense is left out, as on GitHub.
func position(properties map[string]string) (line, endLine, column, endColumn int) {
	read := func(name string) int {
		n, err := strconv.Atoi(strings.TrimSpace(properties[name]))
		if err != nil || n < 0 {
			return 0
		}
		return n
	}
	line, endLine, column, endColumn = read("line"), read("endline"), read("col"), read("endcolumn")
	if line == 0 {
		line = endLine
	}
	if column == 0 {
		column = endColumn
	}
	if line == 0 || endLine != 0 && endLine != line || endColumn != 0 && endColumn < column {
		column, endColumn = 0, 0 // columns belong to one line
	}
	if endLine != 0 && endLine < line {
		line, endLine = 0, 0
	}
	return line, endLine, column, endColumn
}

// show writes an annotation into the log, and tells of it.
func (f *filter) show(a event.Annotation) {
	at := a.File
	for _, n := range []int{a.Line, a.Column} {
		if n == 0 || at == "" {
			break
		}
		at += ":" + strconv.Itoa(n)
	}
	if at != "" {
		at += ": "
	}
	f.say(labels[a.Level] + at + a.Message)
	f.annotation(a)
}

// annotation tells of an annotation, unless there are too many.
func (f *filter) annotation(a event.Annotation) {
	s := f.session
	s.annotations++
	a.Message, a.Title = cut(a.Message), cut(a.Title)
	switch {
	case s.annotations <= MaxAnnotations:
		f.tell(a)
	case s.annotations == MaxAnnotations+1:
		f.tell(event.Warning{Message: fmt.Sprintf("the step made more than %d annotations; more of them are in its log only", MaxAnnotations)})
	}
}

// cut returns what an annotation holds of a text.
func cut(text string) string {
	if len(text) <= MaxAnnotation {
		return text
	}
	return strings.ToValidUTF8(text[:MaxAnnotation], "") + "…"
}

// warn says what the process should know, and does not fail for.
func (f *filter) warn(message string) {
	f.show(event.Annotation{Level: event.AnnotationWarning, Message: message})
}

// debug shows a message to those who asked for it.
func debug(f *filter, c command) error {
	if f.session.debug {
		f.say("Debug: " + c.data)
	}
	return nil
}

// jobFolders are the folders that a process names files in.
type jobFolders struct{ workspace, temp string }

// relative returns the path of a file below the workspace, with slashes; any other path as it is.
func (f jobFolders) relative(path string) string {
	if path == "" {
		return ""
	}
	host := f.hostPath(path)
	if !filepath.IsAbs(host) {
		return path
	}
	rel, err := filepath.Rel(f.workspace, host)
	if err != nil || rel == "." || !filepath.IsLocal(rel) {
		return path
	}
	return filepath.ToSlash(rel)
}

// containerFolders are where an action's container has the folders of the run.
const (
	containerWorkspace = "/github/workspace"
	containerTemp      = "/github/runner_temp"
)

// hostPath translates a path that a container action names.
func (f jobFolders) hostPath(path string) string {
	for inside, outside := range map[string]string{containerWorkspace: f.workspace, containerTemp: f.temp} {
		if rest, ok := strings.CutPrefix(path, inside); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(outside, filepath.FromSlash(rest))
		}
	}
	return path
}
