package gitlab

import (
	"context"
	"errors"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/source"
)

// LoadError says that nothing is wrong with a definition but that files which it includes could not be had: the network is, or nobody
// may have them.
type LoadError struct {
	// Problems are where the files are included.
	Problems diag.List
	// Err is why the first one could not be had.
	Err error
}

func (e *LoadError) Error() string { return e.Problems.Error() }

// Unwrap returns the problems, and why.
func (e *LoadError) Unwrap() []error { return []error{e.Problems, e.Err} }

// code says what went wrong.
func (e *LoadError) code() event.Code {
	var denied *source.DeniedError
	if errors.As(e.Err, &denied) {
		return event.CodeComponentDenied
	}
	return event.CodeFetchFailed
}

// watchedLoader remembers why files could not be had.
type watchedLoader struct {
	config.Loader
	failed []error
}

// Load implements config.Loader.
func (l *watchedLoader) Load(ctx context.Context, place config.Place) (config.File, error) {
	file, err := l.Loader.Load(ctx, place)
	if err != nil {
		l.failed = append(l.failed, err)
	}
	return file, err
}

// blame returns problems as a LoadError, if they are all of files that could not be had for a reason that is not the definition's.
func (l *watchedLoader) blame(problems diag.List) error {
	var fetch *source.FetchError
	var denied *source.DeniedError
	for _, err := range l.failed {
		if !errors.As(err, &fetch) && !errors.As(err, &denied) {
			return problems
		}
	}
	for _, p := range problems {
		if p.Code != config.CodeUnavailable {
			return problems
		}
	}
	if len(l.failed) == 0 {
		return problems
	}
	return &LoadError{problems, l.failed[0]}
}

// asError makes an error of a job of one that is not told by its steps.
func asError(ctx context.Context, err error) *event.Error {
	var unloaded *LoadError
	if ctx.Err() == nil && errors.As(err, &unloaded) {
		list := unloaded.Problems
		e := event.NewError(unloaded.code(), "%s", list[0].Message)
		e.Hint, e.Diagnostics = list[0].Hint, list
		return e
	}
	return session.AsError(ctx, err)
}
