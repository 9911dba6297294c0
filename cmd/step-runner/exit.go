package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/publish/provenance"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/signature"
	"github.com/rungci/rung/steps/source"
)

// The exit codes of every program of Rung.
const (
	exitOK          = event.ExitOK
	exitStepsFailed = event.ExitStepsFailed
	exitUsage       = event.ExitUsage
	exitDefinition  = event.ExitDefinition
	exitDenied      = event.ExitDenied
	exitSystem      = event.ExitSystem
	exitNotFound    = event.ExitNotFound
	exitTimeout     = event.ExitTimeout
	exitInterrupted = event.ExitInterrupted
)

const exitCodesHelp = `Exit codes: 0 fine · 1 the steps failed · 2 usage · 3 a definition is wrong · 4 not allowed · 5 our system failed ·
6 not found · 124 timeout · 130 interrupted`

// readerExitCodesHelp is for the commands that run nothing.
const readerExitCodesHelp = `Exit codes: 0 fine · 2 usage · 3 the file is wrong · 4 not allowed to read it · 5 our system failed · 6 not found`

// cliError is an error with an exit code and what to do about it.
type cliError struct {
	code int
	msg  string
	hint string
}

func (e *cliError) Error() string { return e.msg }

func (e *cliError) hinted(format string, args ...any) *cliError {
	e.hint = fmt.Sprintf(format, args...)
	return e
}

func usage(format string, args ...any) *cliError {
	return &cliError{code: exitUsage, msg: fmt.Sprintf(format, args...)}
}

func coded(code int, format string, args ...any) *cliError {
	return &cliError{code: code, msg: fmt.Sprintf(format, args...)}
}

// shown is an error that a view has shown already: only its exit code is left to give.
type shown struct{ code int }

func (e *shown) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// report maps an error to an exit code and the text that tells the user about it, without the passwords in URLs. It is the only
// place that does.
func report(err error) (code int, text string) {
	code, text = explained(err)
	return code, source.MaskUserinfo(text)
}

func explained(err error) (code int, text string) {
	var done *shown
	if errors.As(err, &done) {
		return done.code, ""
	}
	var unloaded *gitlab.LoadError
	if errors.As(err, &unloaded) {
		code, _ = explained(unloaded.Err)
		return code, renderDiagnostics(unloaded.Problems)
	}
	if list := diag.Of(err); list != nil {
		return exitDefinition, renderDiagnostics(list)
	}
	var own *cliError
	if errors.As(err, &own) {
		d := diag.Diagnostic{Message: own.msg, Hint: own.hint}
		return own.code, d.Render()
	}
	if code, hint := signatureCode(err); code != exitOK {
		d := diag.Diagnostic{Message: err.Error(), Hint: hint}
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
		return exitDenied, d.Render()
	case errors.As(err, &fetch):
		d.Hint = fetch.Hint
		return exitSystem, d.Render()
	case errors.As(err, &unsupported):
		return exitDefinition, d.Render() // as in a list
	case errors.As(err, &missing), errors.Is(err, fs.ErrNotExist):
		return exitNotFound, d.Render()
	case strings.HasPrefix(err.Error(), "unknown command"), strings.HasPrefix(err.Error(), "unknown flag"):
		return exitUsage, d.Render()
	case errors.Is(err, fs.ErrPermission):
		return exitDenied, d.Render()
	}
	return exitSystem, d.Render()
}

// signatureCode maps the errors of keys and signatures to exit codes and hints; other errors to 0.
func signatureCode(err error) (code int, hint string) {
	var key *signature.KeyError
	var form *signature.FormatError
	var wrong *signature.VerifyError
	var password *signature.PasswordError
	var incomplete *provenance.IncompleteError
	switch {
	case errors.As(err, &password) && password.Wrong, errors.As(err, &wrong):
		return exitDenied, ""
	case errors.As(err, &password):
		return exitUsage, "to sign, give --password-file, or set " + keyPasswordName + "; to verify, give the public key"
	case errors.As(err, &incomplete):
		return exitDefinition, "only the trace of a run that has ended can be signed"
	case errors.As(err, &key), errors.As(err, &form):
		return exitDefinition, ""
	}
	return exitOK, ""
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

// exitCode is that of a finished run.
func exitCode(status event.Status, err *event.Error) int {
	return event.ExitCode(status, err)
}
