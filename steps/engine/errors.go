package engine

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"

	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/internal/scarcity"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/value"
)

// outcome is how a step, or an attempt at one, ended.
type outcome struct {
	status   event.Status
	allowed  bool // the failure does not count
	outputs  map[string]value.Value
	exports  map[string]variable
	exitCode *int
	err      *event.Error
	counts   event.Counts // of the steps in it, as they ended the last time they ran
	cut      bool         // a step in it was left out, so that it has no outputs
	late     string       // whose time limit was exceeded: that of the "step" or of the "run" around it; "" ended in time
}

// countOne makes the outcome that of one step which holds no others.
func (o *outcome) countOne() *outcome {
	o.counts = event.Counts{}
	switch {
	case o.status == event.Success:
		o.counts.Success = 1
	case o.status == event.Skipped:
		o.counts.Skipped = 1
	case o.status == event.Cancelled:
		o.counts.Cancelled = 1
	case o.allowed:
		o.counts.Allowed = 1
	default:
		o.counts.Failure = 1
	}
	return o
}

// failed makes the outcome of an error; being stopped is not a failure.
func failed(err *event.Error) *outcome {
	if err.Kind == event.ErrorCancelled {
		return &outcome{status: event.Cancelled, err: err}
	}
	return &outcome{status: event.Failure, err: err}
}

// systemError makes the error of something that the host did not do. A full disk is named.
func systemError(format string, args ...any) *event.Error {
	for _, arg := range args {
		if err, is := arg.(error); is && scarcity.DiskFull(err) {
			return hinted(event.NewError(event.CodeDiskFull, format, args...), event.HintDisk)
		}
	}
	return event.NewError(event.CodeInternalError, format, args...)
}

func definitionError(format string, args ...any) *event.Error {
	return event.NewError(event.CodeDefinitionInvalid, format, args...)
}

// maxStepName bounds the names on the way to a step that an error holds, in bytes.
const maxStepName = 2000

// in says in which step an error began, unless that was in a step inside of it.
func (p *places) in(err *event.Error, id, path string, st *plan.Step) *event.Error {
	out := *err
	if out.Step == "" && out.StepName == "" {
		if len(path) > maxStepName {
			path = "…" + strings.ToValidUTF8(path[len(path)-maxStepName:], "")
		}
		out.Step, out.StepName = id, path
	}
	return p.at(&out, st.Span)
}

// at adds the place that an error is about.
func (p *places) at(err *event.Error, span diag.Span) *event.Error {
	if shown := p.shown(span); len(err.Diagnostics) == 0 && shown.Line > 0 {
		err.Diagnostics = diag.List{{Span: shown, Message: err.Message, Hint: err.Hint, Source: p.line(span)}}
	}
	return err
}

func (p *places) fieldError(f plan.Field, format string, args ...any) *event.Error {
	return p.at(definitionError(format, args...), f.Span)
}

// expressionError makes the error of an expression that could not be evaluated.
func (p *places) expressionError(err error, f plan.Field) *event.Error {
	span := f.Span
	out := event.NewError(event.CodeExpressionInvalid, "%v", err)
	var detail *expr.Error
	if errors.As(err, &detail) {
		out.Message, out.Hint = detail.Message, detail.Hint
		if f.Value.Kind() == value.String {
			span = p.find(span, f.Value.Str(), detail)
		}
	}
	out.Message = "expression: " + out.Message
	if detail != nil {
		p.explainWithheld(out, detail, f.Value.Text())
	}
	return p.at(out, span)
}

// interrupted makes the error of a step that was stopped because its context ended.
func interrupted(ctx context.Context) *event.Error {
	cause := context.Cause(ctx)
	var timeout *event.Error
	if errors.As(cause, &timeout) {
		out := *timeout
		return &out
	}
	stop := event.StopOf(cause)
	return event.NewError(stop.Code, "stopped: %s", stop.Reason)
}

// stopping makes the event of a run that is asked to stop.
func stopping(cause error) event.Stopping {
	var timeout *event.Error
	if errors.As(cause, &timeout) {
		return event.Stopping{Code: timeout.Code, Reason: timeout.Message}
	}
	stop := event.StopOf(cause)
	return event.Stopping{Code: stop.Code, Reason: stop.Reason}
}

// loadError makes the error of a component that could not be loaded.
func loadError(ctx context.Context, ref string, err error) *event.Error {
	if ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err())) {
		return interrupted(ctx)
	}
	var recorded *event.Error // of a replay
	if errors.As(err, &recorded) {
		out := *recorded
		return &out
	}
	if list := diag.Of(err); list != nil {
		e := definitionError("the definition of %q has %d error(s): %s", ref, len(list), list[0].Message)
		e.Diagnostics = list
		return e
	}
	var missing *source.NotFoundError
	if errors.As(err, &missing) {
		e := event.NewError(event.CodeComponentNotFound, "%v", err)
		if strings.HasPrefix(missing.Ref, ".") {
			e.Hint = "a relative path starts in the folder of its file; in a job and in `uses` of an action, in the work directory"
		}
		return e
	}
	var unsupported *source.UnsupportedError
	if errors.As(err, &unsupported) {
		return definitionError("%v", err)
	}
	var denied *source.DeniedError
	if errors.As(err, &denied) {
		return hinted(event.NewError(event.CodeComponentDenied, "%v", err), denied.Hint)
	}
	var fetch *source.FetchError
	switch {
	case scarcity.DiskFull(err): // here: what was fetched could not be written
		return hinted(event.NewError(event.CodeDiskFull, "%v", err), event.HintDisk)
	case errors.As(err, &fetch):
		return hinted(event.NewError(event.CodeFetchFailed, "%v", err), fetch.Hint)
	}
	if errors.Is(err, fs.ErrPermission) {
		return definitionError("cannot read the definition of %q: %v", ref, err)
	}
	return definitionError("cannot load %q: %v", ref, err)
}

// hinted adds what to do next.
func hinted(err *event.Error, hint string) *event.Error {
	err.Hint = hint
	return err
}

// processError makes the error of a process that could not be run, or not to its end.
func processError(ctx context.Context, err error) *event.Error {
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return interrupted(ctx)
	case errors.Is(err, process.ErrKilled):
		return event.NewError(event.CodeKilled, "killed: the run was stopped immediately")
	case errors.Is(err, process.ErrNotFound), errors.Is(err, process.ErrNotExecutable), errors.Is(err, process.ErrTooLong), errors.Is(err, process.ErrWorkDir):
		return event.NewError(event.CodeCommandNotStarted, "%v", err)
	default:
		return systemError("running the command: %v", err)
	}
}

// places know the texts of the definitions of a run: they say where an error is, in the words of whoever wrote that.
type places struct {
	workDir string

	mu       sync.Mutex
	texts    map[string][]byte
	names    map[string]string // what people know files of fetched components by; "" for those of the program's own
	withheld []withheld
}

// name sets what people know a file by.
func (p *places) name(file, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	put(&p.names, file, name)
}

func (p *places) shownName(file string) (name string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, ok = p.names[file]
	return name, ok
}

func (p *places) add(file string, text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.texts == nil {
		p.texts = map[string][]byte{}
	}
	p.texts[file] = text
}

// text returns what is known of a file's text.
func (p *places) text(file string) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.texts[file]
}

// line returns the source line of a span, "" when it is not known.
func (p *places) line(span diag.Span) string {
	return diag.LineOf(p.text(span.File), span.Line)
}

// find narrows the span of a text to the expression that is wrong.
func (p *places) find(span diag.Span, text string, detail *expr.Error) diag.Span {
	return diag.Find(p.line, span, text, detail.Offset, detail.Length)
}
