package yamlsource

import (
	"fmt"

	"github.com/rungci/rung/steps/diag"
)

// problems are the diagnostics of a file, without repetitions: a mistake that aliases repeat is reported once.
type problems struct {
	list diag.List
	seen map[problem]bool
}

type problem struct {
	place   diag.Span
	message string
}

// Report adds a diagnostic about the place to those that Err returns. The source line is filled in.
func (f *File) Report(place diag.Span, hint, format string, args ...any) {
	key := problem{place, fmt.Sprintf(format, args...)}
	if f.found.seen[key] {
		return
	}
	if f.found.seen == nil {
		f.found.seen = map[problem]bool{}
	}
	f.found.seen[key] = true
	f.found.list = append(f.found.list, f.Diagnostic(place, hint, key.message))
}

// Diagnostic returns a diagnostic about the place with its source line.
func (f *File) Diagnostic(place diag.Span, hint, message string) diag.Diagnostic {
	return diag.Diagnostic{Span: place, Message: message, Hint: hint, Source: f.original.line(place.Line)}
}

// Err returns what was reported as a sorted diag.List of at most MaxProblems and a last one that counts the rest, or nil
// when nothing was reported.
func (f *File) Err() error {
	if len(f.found.list) == 0 {
		return nil
	}
	list := append(diag.List(nil), f.found.list...)
	list.Sort()
	if more := len(list) - MaxProblems; more > 0 {
		list = append(list[:MaxProblems], diag.Diagnostic{
			Span:    diag.Span{File: f.Name},
			Message: fmt.Sprintf("%d more problems are not shown", more),
		})
	}
	return list
}

// Failed reports whether anything was reported.
func (f *File) Failed() bool { return len(f.found.list) > 0 }

// Full reports whether there are already more problems than Err shows: hints for further ones are not worth their making.
func (f *File) Full() bool { return len(f.found.list) > MaxProblems }

// Text is the text of the file, which must not be changed.
func (f *File) Text() []byte { return f.text.data }
