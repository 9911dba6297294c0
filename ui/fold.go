package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/ui/joblog"
)

// Fold says whose job log a plain view is read in: steps become parts that fold there, and several jobs are shown one after the other.
type Fold string

// The values of Fold.
const (
	FoldAuto   Fold = "auto" // what FoldFor makes of the environment
	FoldGitLab Fold = "gitlab"
	FoldGitHub Fold = "github"
	FoldNone   Fold = "none"
)

// ParseFold reads a Fold by name; "" is auto.
func ParseFold(name string) (Fold, error) {
	switch f := Fold(name); f {
	case "":
		return FoldAuto, nil
	case FoldAuto, FoldGitLab, FoldGitHub, FoldNone:
		return f, nil
	}
	return "", fmt.Errorf("unknown job log %q: use auto, gitlab, github or none", name)
}

// FoldFor returns whose job log the environment says that this is. RUNG_LOCAL marks jobs that a local run only shows as if it were GitLab or GitHub.
func FoldFor(env func(string) string) Fold {
	switch {
	case env("RUNG_LOCAL") == "true":
		return FoldNone
	case env("GITLAB_CI") == "true":
		return FoldGitLab
	case env("GITHUB_ACTIONS") == "true":
		return FoldGitHub
	}
	return FoldNone
}

// folds are the sections that are open. A section of GitLab's nests; a group of GitHub's does not, so only the outermost steps have one.
type folds struct {
	kind Fold
	run  string // begins the names of sections: several runs may share a job log
	job  string // of a pipeline of several: begins the titles of GitHub's groups
	open []*step
}

// start returns the line of a step that starts as the title of its section. Steps that run beside others have none: sections cannot overlap.
func (f *folds) start(s *step, line string, now time.Time) string {
	inside := s.parent != nil
	if f.kind == FoldNone || s.inParallel || inside && (f.kind == FoldGitHub || !slices.Contains(f.open, s.parent)) {
		return line
	}
	text := f.endTo(slices.Index(f.open, s.parent)+1, now) // those of steps that still run in the background
	f.open = append(f.open, s)
	if f.kind == FoldGitHub {
		return text + "::group::" + strings.ReplaceAll(f.title(s.label), "%", "%25") + "\n"
	}
	return text + joblog.SectionStart(now, f.name(s), false) + line
}

// title is the name of a step for GitHub, which shows it without what is around it.
func (f *folds) title(label string) string {
	if f.job == "" {
		return label
	}
	return cleanLabel(f.job) + ": " + label
}

// finish ends the section of a step and what is open in it.
func (f *folds) finish(s *step, now time.Time) string {
	i := slices.Index(f.open, s)
	if i < 0 {
		return ""
	}
	return f.endTo(i, now)
}

// endTo ends sections, the innermost first, until so many are open.
func (f *folds) endTo(n int, now time.Time) string {
	var text string
	for len(f.open) > n {
		last := f.open[len(f.open)-1]
		f.open = f.open[:len(f.open)-1]
		if f.kind == FoldGitHub {
			text += "::endgroup::\n"
		} else {
			text += joblog.SectionEnd(now, f.name(last))
		}
	}
	return text
}

func (f *folds) name(s *step) string { return joblog.SectionName("rung_" + f.run + "_" + s.path) }

// maxFoldRun is how much of the ID of a run is in the names of its sections.
const maxFoldRun = 8

// hides reports whether what a step put out is folded away when it ends.
func (f *folds) hides() bool { return f.kind == FoldGitHub }

// repeated returns lines of a step's output that are shown again: commands to GitHub in them must not be run twice.
func (f *folds) repeated(lines []string) []string {
	if !f.hides() {
		return lines
	}
	for i, line := range lines {
		if text := strings.TrimLeft(line, " \t"); strings.HasPrefix(text, "::") || strings.Contains(text, "##[") {
			lines[i] = "| " + strings.ReplaceAll(line, "##[", "## [")
		}
	}
	return lines
}

// failure returns the command that makes GitHub show an error, or a warning, beside the line that failed, in the changes of a pull request.
func (f *folds) failure(at failure, level string) string {
	if f.kind != FoldGitHub {
		return ""
	}
	span, message := at.span, at.outcome
	if e := at.err; e != nil {
		message = e.Message
		if i := slices.IndexFunc(e.Diagnostics, func(d diag.Diagnostic) bool { return !d.Note && d.Line > 0 }); i >= 0 {
			span = e.Diagnostics[i].Span
		}
		if e.Hint != "" {
			message += "\n" + e.Hint
		}
	}
	properties := "title=" + githubProperty(cleanText(f.title(at.label)))
	if span.Line > 0 {
		properties = fmt.Sprintf("file=%s,line=%d,col=%d,%s", githubProperty(cleanText(span.File)), span.Line, max(span.Column, 1), properties)
	}
	return "::" + level + " " + properties + "::" + githubData.Replace(cleanLines(message)) + "\n"
}

// githubData escapes what follows a command of GitHub's, as its toolkit does; githubProperty a value before it.
var githubData = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")

func githubProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(githubData.Replace(s))
}

// failureCommands are those of all failures that are remembered. Those of a job that was allowed to fail are warnings.
func (f *folds) failureCommands(list []failure, b event.RunFinished, allowed bool) string {
	if b.Status != event.Failure {
		return ""
	}
	level := "error"
	if allowed {
		level = "warning"
	}
	var text strings.Builder
	for _, at := range list {
		text.WriteString(f.failure(at, level))
	}
	return text.String()
}
