package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/rungci/rung/sdk/instancegroup"
)

// errChanged says that a resource exists already, or is not what it was.
var errChanged = errors.New("it exists already, or has changed")

// kinds are those of the errors that Azure gives a code.
// Source: learn.microsoft.com/azure/azure-resource-manager/troubleshooting/common-deployment-errors, …/virtual-machines/error-codes-spot.
var kinds = map[string]error{
	"QuotaExceeded":                         instancegroup.ErrQuota,
	"ResourceQuotaExceeded":                 instancegroup.ErrQuota,
	"SkuNotAvailable":                       instancegroup.ErrQuota,
	"AllocationFailed":                      instancegroup.ErrQuota,
	"ZonalAllocationFailed":                 instancegroup.ErrQuota,
	"OverconstrainedAllocationRequest":      instancegroup.ErrQuota,
	"OverconstrainedZonalAllocationRequest": instancegroup.ErrQuota,
	"SubnetIsFull":                          instancegroup.ErrQuota,
	"PublicIPCountLimitReached":             instancegroup.ErrQuota,
	"TooManyRequests":                       instancegroup.ErrTransient,
	"SubscriptionRequestsThrottled":         instancegroup.ErrTransient,
	"AnotherOperationInProgress":            instancegroup.ErrTransient,
	"OperationPreempted":                    instancegroup.ErrTransient,
	"RetryableError":                        instancegroup.ErrTransient,
	"ServerTimeout":                         instancegroup.ErrTransient,
	"InternalExecutionError":                instancegroup.ErrTransient,
	"AuthorizationFailed":                   instancegroup.ErrUnauthorised,
	"LinkedAuthorizationFailed":             instancegroup.ErrUnauthorised,
	"PreconditionFailed":                    errChanged,
	"ConditionNotMet":                       errChanged,
}

// notAllowed is the code of quotas, which Azure also uses for what a resource does not allow or not at the moment. Only the text tells.
const notAllowed = "OperationNotAllowed"

// kind is that of a code and its text, or of an HTTP status where these say nothing; nil: an error that is ours.
func kind(code, text string, status int) error {
	text = strings.ToLower(text)
	switch {
	case code != notAllowed:
	case strings.Contains(text, "quota") || strings.Contains(text, "limit"):
		return instancegroup.ErrQuota
	case status == http.StatusConflict:
		return instancegroup.ErrTransient
	}
	if k := kinds[code]; k != nil {
		return k
	}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return instancegroup.ErrUnauthorised
	case status == http.StatusNotFound || status == http.StatusGone:
		return instancegroup.ErrNotFound
	case status == http.StatusPreconditionFailed:
		return errChanged
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= http.StatusInternalServerError:
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
	var refused *azcore.ResponseError
	var denied *azidentity.AuthenticationFailedError
	switch {
	case errors.As(err, &refused):
	case errors.As(err, &denied):
		return &instancegroup.Error{Kind: instancegroup.ErrUnauthorised, Message: fmt.Sprintf("%s: %v", what, err), Err: err}
	default:
		var known *instancegroup.Error
		if errors.As(err, &known) {
			return err
		}
		return &instancegroup.Error{Kind: instancegroup.ErrTransient, Message: fmt.Sprintf("%s: %v", what, err), Err: err} // no answer
	}
	text := said(refused)
	message := fmt.Sprintf("%s: %s (%d %s)", what, text, refused.StatusCode, refused.ErrorCode)
	k := kind(refused.ErrorCode, text, refused.StatusCode)
	if k == nil {
		return errors.New(message)
	}
	out := &instancegroup.Error{Kind: k, Message: message, Err: err}
	if refused.RawResponse != nil && errors.Is(k, instancegroup.ErrTransient) {
		if seconds, err := strconv.Atoi(refused.RawResponse.Header.Get("Retry-After")); err == nil && seconds > 0 {
			out.After = time.Duration(seconds) * time.Second
		}
	}
	return out
}
