package github

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/steps/event"
)

// found are the texts of a problem so far. A nil one was not looked for.
type found [fieldCount]*string

// with returns what is found with a match of the next pattern. What was found first stays.
func (before *found) with(p *pattern, line []byte, groups []int) *found {
	var all found
	if before != nil {
		all = *before
	}
	for i, number := range p.groups() {
		if number == nil || all[i] != nil {
			continue
		}
		text := ""
		if from := groups[2**number]; from >= 0 {
			text = string(line[from:groups[2**number+1]])
		}
		all[i] = &text
	}
	return &all
}

// text returns one of the texts; "" when there is none.
func (f *found) text(field int) string {
	if f == nil || f[field] == nil {
		return ""
	}
	return *f[field]
}

// match looks for a problem at the end of a line. running[i] is what the patterns up to i have found in the lines before.
func (m *matcher) match(line []byte, running []*found) *found {
	last := len(m.Patterns) - 1
	for i := last; i >= 0; i-- {
		var before *found
		if i > 0 {
			if before = running[i-1]; before == nil {
				continue
			}
		}
		p := m.Patterns[i]
		var groups []int
		if len(line) <= p.longest {
			groups = p.compiled.FindSubmatchIndex(line)
		}
		switch {
		case groups != nil && i == last:
			clear(running)
			if p.Loop {
				running[i-1] = before
			}
			return before.with(p, line, groups)
		case groups != nil:
			running[i] = before.with(p, line, groups)
		case i < last:
			running[i] = nil
		case i > 0:
			running[i-1] = nil
		}
	}
	return nil
}

// colours are the escape sequences that matchers do not see.
var colours = lazyregexp.New(`\x1b\[[0-9;]*m?`)

// watch keeps a piece of the line for the problem matchers.
func (f *filter) watch(piece []byte) {
	if f.place == atStart && len(f.line) == 0 {
		f.watched = len(f.session.job.matchersNow()) > 0
	}
	if !f.watched {
		return
	}
	if f.seen = append(f.seen, piece...); len(f.seen) > MaxMatchedLine {
		f.watched, f.seen = false, nil
	}
}

// match gives the line to the problem matchers. The first that finds a problem has it.
func (f *filter) match() {
	matchers := f.session.job.matchersNow()
	if !f.watched || len(matchers) == 0 {
		return
	}
	line := f.seen
	if bytes.Contains(line, []byte("\x1b[")) {
		line = colours().ReplaceAll(line, nil)
	}
	for _, m := range matchers {
		if f.session.process.Live.Err() != nil { // the process is stopped: what it still has to say must not take long
			return
		}
		problem := m.match(line, f.runningOf(m))
		if problem == nil {
			continue
		}
		for other, running := range f.running {
			if other != m {
				clear(running)
			}
		}
		if a, ok := f.session.problem(m, problem); ok {
			f.annotation(a)
			return
		}
	}
}

// runningOf returns what a matcher has found in this stream so far.
func (f *filter) runningOf(m *matcher) []*found {
	if len(m.Patterns) == 1 {
		return nil
	}
	running, ok := f.running[m]
	if !ok {
		if f.running == nil || len(f.running) > MaxMatchers { // of matchers that are gone
			f.running = map[*matcher][]*found{}
		}
		running = make([]*found, len(m.Patterns)-1)
		f.running[m] = running
	}
	return running
}

// level is that of a severity; "" is none.
func level(severity string) event.AnnotationLevel {
	switch l := event.AnnotationLevel(strings.ToLower(severity)); l {
	case event.AnnotationError, event.AnnotationWarning, event.AnnotationNotice:
		return l
	default:
		return ""
	}
}

// problem makes an annotation of what a matcher found. One without message, or of another severity, is none.
func (s *Session) problem(m *matcher, p *found) (event.Annotation, bool) {
	severity := p.text(foundSeverity)
	if severity == "" {
		severity = m.Severity
	}
	if severity == "" {
		severity = string(event.AnnotationError)
	}
	a := event.Annotation{Level: level(severity), Message: p.text(foundMessage), Code: strings.TrimSpace(p.text(foundCode))}
	if a.Level == "" || strings.TrimSpace(a.Message) == "" {
		return a, false
	}
	number := func(text string) int {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return 0
		}
		return int(n)
	}
	a.Line, a.Column = number(p.text(foundLine)), number(p.text(foundColumn))
	from := p.text(foundFromPath)
	if from == "" {
		from = m.FromPath
	}
	a.File = s.folders().problemFile(p.text(foundFile), from)
	return a, true
}

// problemFile returns the path of a file below the workspace, with slashes. A file that is not there, or elsewhere, has none: the text
// may be anything.
func (f jobFolders) problemFile(file, from string) string {
	if strings.TrimSpace(file) == "" {
		return ""
	}
	path := f.hostPath(file)
	if !filepath.IsAbs(path) && strings.TrimSpace(from) != "" {
		path = filepath.Join(filepath.Dir(f.hostPath(from)), path)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(f.workspace, path)
	}
	rel := f.relative(path)
	if filepath.IsAbs(rel) || rel == "" {
		return ""
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return ""
	}
	return rel
}
