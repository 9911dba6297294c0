package service

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/diag"
)

const codeInvalid = codes.InvalidArgument

// apiError is an error as clients get it: a status with a code and, where something is wrong with the steps, with diagnostics.
type apiError struct {
	code        codes.Code
	message     string
	hint        string
	diagnostics diag.List
}

func (e *apiError) Error() string {
	if e.hint != "" {
		return e.message + "; " + e.hint
	}
	return e.message
}

func (e *apiError) hinted(hint string) *apiError {
	e.hint = hint
	return e
}

// A status travels in the trailer, of which clients accept as little as 8 KiB: its text, twice, and the details in base64.
const (
	maxMessage    = 800  // bytes
	maxDetails    = 3000 // bytes of diagnostics
	maxSourceLine = 200  // bytes of a source line
)

// GRPCStatus makes the error a status with details: as many diagnostics as fit.
func (e *apiError) GRPCStatus() *status.Status {
	st := status.New(e.code, shorten(e.Error(), maxMessage))
	details, size := &runnerv1.Diagnostics{}, 0
	for _, d := range toDiagnostics(e.diagnostics) {
		if size += proto.Size(d); size > maxDetails {
			break
		}
		details.Diagnostics = append(details.Diagnostics, d)
	}
	if len(details.Diagnostics) == 0 {
		return st
	}
	detailed, err := st.WithDetails(details)
	if err != nil {
		return st
	}
	return detailed
}

// shorten cuts a text to at most n bytes of UTF-8.
func shorten(text string, n int) string {
	if len(text) > n {
		text = strings.ToValidUTF8(text[:n-len("…")], "") + "…"
	}
	return clean(text)
}

// clean makes a text what protobuf takes: UTF-8.
func clean(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func apiErrorf(code codes.Code, format string, args []any) *apiError {
	return &apiError{code: code, message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *apiError { return apiErrorf(codeInvalid, format, args) }

func notFound(format string, args ...any) *apiError { return apiErrorf(codes.NotFound, format, args) }

func alreadyExists(format string, args ...any) *apiError {
	return apiErrorf(codes.AlreadyExists, format, args)
}

func exhausted(format string, args ...any) *apiError {
	return apiErrorf(codes.ResourceExhausted, format, args)
}

func unavailable(format string, args ...any) *apiError {
	return apiErrorf(codes.Unavailable, format, args)
}

func failedPrecondition(format string, args ...any) *apiError {
	return apiErrorf(codes.FailedPrecondition, format, args)
}

func internal(format string, args ...any) *apiError { return apiErrorf(codes.Internal, format, args) }

func dataLoss(format string, args ...any) *apiError { return apiErrorf(codes.DataLoss, format, args) }

// contextError is the error of a call whose client has left, or let its deadline pass.
func contextError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return apiErrorf(codes.DeadlineExceeded, "the call's deadline has passed", nil)
	}
	return apiErrorf(codes.Canceled, "the client disconnected", nil)
}

func toDiagnostics(list diag.List) []*runnerv1.Diagnostic {
	out := make([]*runnerv1.Diagnostic, len(list))
	for i, d := range list {
		out[i] = &runnerv1.Diagnostic{
			File: clean(d.File), Line: int64(d.Line), Column: int64(d.Column), Length: int64(d.Length),
			Message: shorten(d.Message, maxMessage), Hint: shorten(d.Hint, maxMessage), SourceLine: shorten(d.Source, maxSourceLine), Note: d.Note,
		}
	}
	return out
}
