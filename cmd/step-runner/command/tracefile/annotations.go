package tracefile

import (
	"cmp"
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/problems"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/trace"
)

// The formats of annotations, which are made here, because the trace package does not know those of problems.
const (
	formatSARIF       = "sarif"
	formatCodeQuality = "codequality"
)

// exportAnnotations writes what the steps said about places in files.
func exportAnnotations(w io.Writer, t *trace.Trace, format string) error {
	list := annotationProblems(t)
	if format == formatSARIF {
		return problems.SARIF(w, list, "step-runner", t.Runtime.Version)
	}
	return problems.CodeQuality(w, list)
}

// annotationProblems are the annotations of all steps. One that names no file stands where its step is written.
func annotationProblems(t *trace.Trace) []problems.Problem {
	list := []problems.Problem{}
	t.Walk(func(s *trace.Step, _ int) {
		for _, a := range s.Annotations {
			d := diag.Diagnostic{Message: a.Message, Span: diag.Span{File: belowWorkDir(t, a.File), Line: a.Line, Column: a.Column}}
			if a.Title != "" {
				d.Message = a.Title + ": " + a.Message
			}
			if a.EndLine <= a.Line && a.EndColumn > a.Column {
				d.Length = a.EndColumn - a.Column
			}
			if a.File == "" {
				d.Span = s.Span
				d.Message = cmp.Or(s.Title, s.Name) + ": " + d.Message
			}
			list = append(list, problems.Problem{
				Diagnostic: d, Rule: cmp.Or(a.Code, string(a.Level)), Warning: a.Level == event.AnnotationWarning, Note: a.Level == event.AnnotationNotice,
			})
		}
	})
	return list
}

// belowWorkDir names a file as those who look at the repository know it.
func belowWorkDir(t *trace.Trace, file string) string {
	name, dir := filepath.ToSlash(file), strings.TrimRight(filepath.ToSlash(t.Run.WorkDir), "/")
	if rest, ok := strings.CutPrefix(name, dir+"/"); ok && dir != "" {
		name = rest
	}
	if name == "" {
		return ""
	}
	return path.Clean(name)
}
