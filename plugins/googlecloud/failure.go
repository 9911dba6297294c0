package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"

	"github.com/rungci/rung/sdk/instancegroup"
)

// errExists says that there is a resource of that name already.
var errExists = errors.New("it exists already")

// kinds are those of the errors that the API gives a code: reasons of refused requests, and codes of operations that failed.
// Sources: cloud.google.com/compute/docs/troubleshooting/troubleshooting-vm-creation, cloud.google.com/resource-manager/docs/core_errors.
var kinds = map[string]error{
	"quotaExceeded":                       instancegroup.ErrQuota,
	"limitExceeded":                       instancegroup.ErrQuota,
	"QUOTA_EXCEEDED":                      instancegroup.ErrQuota,
	"LIMIT_EXCEEDED":                      instancegroup.ErrQuota,
	"ZONE_RESOURCE_POOL_EXHAUSTED":        instancegroup.ErrQuota,
	"RESOURCE_POOL_EXHAUSTED":             instancegroup.ErrQuota,
	"IP_SPACE_EXHAUSTED":                  instancegroup.ErrQuota,
	"CONDITION_NOT_MET":                   instancegroup.ErrTransient,
	"rateLimitExceeded":                   instancegroup.ErrTransient,
	"userRateLimitExceeded":               instancegroup.ErrTransient,
	"concurrentLimitExceeded":             instancegroup.ErrTransient,
	"resourceNotReady":                    instancegroup.ErrTransient,
	"backendError":                        instancegroup.ErrTransient,
	"RESOURCE_NOT_READY":                  instancegroup.ErrTransient,
	"RESOURCE_OPERATION_RATE_EXCEEDED":    instancegroup.ErrTransient,
	"RATE_LIMIT_EXCEEDED":                 instancegroup.ErrTransient,
	"INTERNAL_ERROR":                      instancegroup.ErrTransient,
	"RESOURCE_NOT_FOUND":                  instancegroup.ErrNotFound,
	"resourceInUseByAnotherResource":      instancegroup.ErrInUse,
	"RESOURCE_IN_USE_BY_ANOTHER_RESOURCE": instancegroup.ErrInUse,
	"PERMISSIONS_ERROR":                   instancegroup.ErrUnauthorised,
	"alreadyExists":                       errExists,
	"RESOURCE_ALREADY_EXISTS":             errExists,
}

// details is what the API appends to a code whose errors have details.
const details = "_WITH_DETAILS"

// kind is that of a code, or of an HTTP status where the code says nothing; nil: an error that is ours.
func kind(code string, status int) error {
	if k := kinds[strings.TrimSuffix(code, details)]; k != nil {
		return k
	}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return instancegroup.ErrUnauthorised
	case status == http.StatusNotFound || status == http.StatusGone:
		return instancegroup.ErrNotFound
	case status == http.StatusConflict:
		return errExists
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status == http.StatusPreconditionFailed || status >= http.StatusInternalServerError:
		return instancegroup.ErrTransient
	}
	return nil
}

// failure is an error of a call, with its identity.
func failure(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	var refused *googleapi.Error
	if !errors.As(err, &refused) {
		var known *instancegroup.Error
		if errors.As(err, &known) {
			return err
		}
		return &instancegroup.Error{Kind: instancegroup.ErrTransient, Message: fmt.Sprintf("%s: %v", what, err), Err: err} // no answer
	}
	code, text := "", refused.Message
	if len(refused.Errors) > 0 {
		code = refused.Errors[0].Reason
	}
	if text == "" {
		text = http.StatusText(refused.Code)
	}
	k := kind(code, refused.Code)
	if k == nil {
		return fmt.Errorf("%s: %s (%d %s)", what, text, refused.Code, code)
	}
	out := &instancegroup.Error{Kind: k, Message: fmt.Sprintf("%s: %s (%d %s)", what, text, refused.Code, code), Err: err}
	if seconds, err := strconv.Atoi(refused.Header.Get("Retry-After")); err == nil && seconds > 0 && errors.Is(k, instancegroup.ErrTransient) {
		out.After = time.Duration(seconds) * time.Second
	}
	return out
}

// failed is the error of an operation that is done; nil: it succeeded.
func failed(what string, op *compute.Operation) error {
	if op.Error == nil && op.HttpErrorStatusCode < http.StatusBadRequest {
		return nil
	}
	code, text := "", op.HttpErrorMessage
	if op.Error != nil && len(op.Error.Errors) > 0 {
		code, text = op.Error.Errors[0].Code, op.Error.Errors[0].Message
	}
	k := kind(code, int(op.HttpErrorStatusCode))
	if k == nil {
		return fmt.Errorf("%s: %s (%s)", what, text, code)
	}
	return &instancegroup.Error{Kind: k, Message: fmt.Sprintf("%s: %s (%s)", what, text, code)}
}
