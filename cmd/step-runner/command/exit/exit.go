// Package exit holds the errors of commands, and the one place where errors become exit codes and text.
package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/signature"
	"github.com/rungci/rung/steps/source"
)

// The exit codes of every program of Rung.
const (
	OK          = event.ExitOK
	StepsFailed = event.ExitStepsFailed
	Different   = 1 // what was compared differs, as of diff
	BadUsage    = event.ExitUsage
	Definition  = event.ExitDefinition
	Denied      = event.ExitDenied
	System      = event.ExitSystem
	NotFound    = event.ExitNotFound
	Paused      = event.ExitPaused
	Timeout     = event.ExitTimeout
	Interrupted = event.ExitInterrupted
)

// CodesHelp is for the commands that run steps.
const CodesHelp = `Exit codes: 0 success · 1 the steps failed · 2 usage · 3 invalid definition · 4 not allowed · 5 internal error · 6 not found
· 7 paused · 124 timeout · 130 interrupted`

// ReaderCodesHelp is for the commands that run nothing.
const ReaderCodesHelp = `Exit codes: 0 success · 2 usage · 3 invalid file · 4 permission denied · 5 internal error · 6 not found`

// Error is an error with an exit code and what to do about it.
type Error struct {
	Code int
	msg  string
	hint string
}

func (e *Error) Error() string { return e.msg }

// Hinted adds what to do about it.
func (e *Error) Hinted(format string, args ...any) *Error {
	e.hint = fmt.Sprintf(format, args...)
	return e
}

// Usage is the error of a wrong command line.
func Usage(format string, args ...any) *Error {
	return &Error{Code: BadUsage, msg: fmt.Sprintf(format, args...)}
}

// Coded is an error with the exit code.
func Coded(code int, format string, args ...any) *Error {
	return &Error{Code: code, msg: fmt.Sprintf(format, args...)}
}

// shownError is an error that a view has shown already: only its exit code is left to give.
type shownError struct{ code int }

func (e *shownError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// Shown is an error that the user has been told: only its exit code is left to give.
func Shown(code int) error { return &shownError{code} }

// IsShown reports whether err is already shown, with that exit code.
func IsShown(err error, code int) bool {
	var done *shownError
	return errors.As(err, &done) && done.code == code
}

// diagnosed are problems of a file that are not why the program ends: that is cause.
type diagnosed struct {
	problems diag.List
	cause    error
}

func (e *diagnosed) Error() string { return e.problems.Error() }

// WithProblems is an error that is shown as problems, and has the exit code of its cause.
func WithProblems(problems diag.List, cause error) error { return &diagnosed{problems, cause} }

// Report maps an error to an exit code and the text that tells the user about it, without the passwords in URLs, and without anything that
// does more to a terminal than show text. It is the only place that does.
func Report(err error) (code int, text string) {
	code, text = explained(err)
	return code, cleantext.Text(source.MaskUserinfo(text))
}

func explained(err error) (code int, text string) {
	var done *shownError
	if errors.As(err, &done) {
		return done.code, ""
	}
	var told *diagnosed
	if errors.As(err, &told) {
		code, _ = explained(told.cause)
		return code, renderDiagnostics(told.problems)
	}
	if list := diag.Of(err); list != nil {
		return Definition, renderDiagnostics(list)
	}
	var own *Error
	if errors.As(err, &own) {
		d := diag.Diagnostic{Message: own.msg, Hint: own.hint}
		return own.Code, d.Render()
	}
	var ended *event.Error
	if errors.As(err, &ended) {
		d := diag.Diagnostic{Message: ended.Error(), Hint: ended.Hint}
		return OfRun(event.Failure, ended), d.Render()
	}
	if code := signatureCode(err); code != OK {
		d := diag.Diagnostic{Message: err.Error()}
		return code, d.Render()
	}
	var missing *source.NotFoundError
	var unsupported *source.UnsupportedError
	var denied *source.DeniedError
	var fetch *source.FetchError
	d := diag.Diagnostic{Message: err.Error()}
	switch {
	case errors.As(err, &denied):
		d.Hint = denied.Hint
		return Denied, d.Render()
	case errors.As(err, &fetch):
		d.Hint = fetch.Hint
		return System, d.Render()
	case errors.As(err, &unsupported):
		return Definition, d.Render() // as in a list
	case errors.As(err, &missing), errors.Is(err, fs.ErrNotExist):
		d.Hint = missingFileHint(err)
		return NotFound, d.Render()
	case errors.Is(err, fs.ErrPermission):
		return Denied, d.Render()
	}
	return System, d.Render()
}

// signatureCode maps the errors of keys and signatures to exit codes; other errors to 0.
func signatureCode(err error) int {
	var key *signature.KeyError
	var form *signature.FormatError
	var wrong *signature.VerifyError
	var password *signature.PasswordError
	switch {
	case errors.As(err, &password) && password.Wrong, errors.As(err, &wrong):
		return Denied
	case errors.As(err, &password):
		return BadUsage
	case errors.As(err, &key), errors.As(err, &form):
		return Definition
	}
	return OK
}

// AsEvent makes an error that keeps a run from starting that of the run: its exit code, its place and what to do about it are data. The lines of
// files stay here, as whoever reads the job's log need not be allowed to read a file of the machine's.
func AsEvent(err error) *event.Error {
	var ended *event.Error
	if errors.As(err, &ended) {
		return ended
	}
	code, _ := explained(err)
	kind := event.ErrorSystem
	for _, of := range []event.ErrorKind{event.ErrorDefinition, event.ErrorDenied, event.ErrorNotFound} {
		if of.ExitCode() == code {
			kind = of
		}
	}
	out := event.NewError(kind.Code(), "%s", source.MaskUserinfo(err.Error()))
	var own *Error
	if errors.As(err, &own) {
		out.Hint = own.hint
	}
	if list := diag.Of(err); list != nil {
		out.Message, out.Hint, out.Diagnostics = source.MaskUserinfo(list[0].Error()), list[0].Hint, slices.Clone(list)
		for i := range out.Diagnostics {
			out.Diagnostics[i].Source = ""
		}
	}
	return out
}

// maxShownDiagnostics bounds how many diagnostics of one input are shown.
const maxShownDiagnostics = 20

func renderDiagnostics(list diag.List) string {
	if len(list) <= maxShownDiagnostics {
		return list.Render()
	}
	text := list[:maxShownDiagnostics].Render()
	if rest := len(list) - maxShownDiagnostics; len(list) <= yamlsource.MaxProblems {
		return text + fmt.Sprintf("\nand %d more errors\n", rest)
	}
	return text + fmt.Sprintf("\nand more than %d other errors\n", yamlsource.MaxProblems-maxShownDiagnostics)
}

// OfRun is that of a finished run.
func OfRun(status event.Status, err *event.Error) int {
	return event.ExitCode(status, err)
}
