package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	smithy "github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/rungci/rung/sdk/instancegroup"
)

// errLost is in errors of calls whose answer did not come: they may have had an effect.
var errLost = errors.New("the answer did not come")

// errThrottled is in errors of calls that AWS refused because there were too many.
var errThrottled = errors.New("too many requests")

// throttledAfter is when the runner should try again what was refused as often as the plugin tried it.
const throttledAfter = 10 * time.Second

// codes are the errors of AWS's APIs by kind. Those that are not listed are internal errors, or transient where the status is 500 or more.
var codes = byCode(map[error][]string{
	instancegroup.ErrQuota: {
		"InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientReservedInstanceCapacity", "InsufficientCapacity", "UnfulfillableCapacity", "InstanceLimitExceeded",
		"VcpuLimitExceeded", "MaxSpotInstanceCountExceeded", "MaxSpotFleetRequestCountExceeded", "SpotMaxPriceTooLow", "InsufficientFreeAddressesInSubnet", "VolumeLimitExceeded",
		"MaxIOPSLimitExceeded", "AttachmentLimitExceeded", "InsufficientVolumeCapacity", "LimitExceeded", "LimitExceededException", "InsufficientAddressCapacity", "AddressLimitExceeded", "NetworkInterfaceLimitExceeded",
	},
	instancegroup.ErrUnauthorised: {
		"UnauthorizedOperation", "AuthFailure", "AccessDenied", "AccessDeniedException", "AuthException", "InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken",
		"ExpiredTokenException", "RequestExpired", "UnrecognizedClientException", "OptInRequired", "MissingAuthenticationToken", "IncompleteSignature", "Blocked", "InvalidSecurity",
	},
	instancegroup.ErrNotFound: {
		"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed", "InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateId.NotFoundException",
		"InvalidLaunchTemplateId.Malformed", "InvalidLaunchTemplateId.VersionNotFound", "InvalidSubnetID.NotFound", "InvalidInstanceType", "EC2InstanceNotFoundException", "InvalidZone.NotFound",
		"InvalidVolume.NotFound", "InvalidVolumeID.Malformed",
	},
	instancegroup.ErrUncertain: {"IdempotentParameterMismatch", "IdempotentParameterMismatchException"},
	instancegroup.ErrUnsupported: {
		"UnsupportedOperation", "Unsupported", "UnsupportedOperationException", "InvalidVolume.ZoneMismatch", "VolumeTypeNotAvailableInZone", "UnknownVolumeType", "EncryptedVolumesNotSupported",
	},
	instancegroup.ErrInUse: {volumeInUse},
	errThrottled: {
		"RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException", "TooManyRequestsException", "BandwidthLimitExceeded",
	},
	instancegroup.ErrTransient: {
		"ServiceUnavailable", "Unavailable", "InternalError", "InternalFailure", "InternalServerError", "ServiceException", "ResourceContention", "ScalingActivityInProgress", "IncorrectInstanceState",
		"EC2InstanceStateInvalidException", "EC2InstanceUnavailableException", "ConcurrentTagAccess", "RequestTimeout", "RequestTimeoutException",
	},
})

// Codes that say what a volume is. They are not transient, because a call that gets one is not made again before somebody has looked.
const (
	incorrectState = "IncorrectState"
	volumeInUse    = "VolumeInUse"
	noAttachment   = "InvalidAttachment.NotFound"
)

// codeOf is the code of an error that AWS has answered with; empty: it is not one.
func codeOf(err error) string {
	var said smithy.APIError
	if errors.As(err, &said) {
		return said.ErrorCode()
	}
	return ""
}

// isNameTaken reports whether a machine has another device with a name. The code is that of all wrong values, so that EC2's words must tell.
func isNameTaken(err error) bool {
	var said smithy.APIError
	return errors.As(err, &said) && said.ErrorCode() == "InvalidParameterValue" && strings.Contains(said.ErrorMessage(), "already in use")
}

func byCode(kinds map[error][]string) map[string]error {
	out := map[string]error{}
	for kind, list := range kinds {
		for _, code := range list {
			out[code] = kind
		}
	}
	return out
}

// failure is the error of one try as the contract has it. ctx is that of the whole call.
func failure(ctx context.Context, err error) error {
	var said smithy.APIError
	var answer *smithyhttp.ResponseError
	var unsent *smithyhttp.RequestSendError
	var invalid smithy.InvalidParamsError
	status := 0
	if errors.As(err, &answer) {
		status = answer.HTTPStatusCode()
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &said):
		return refusal(operation(err), said.ErrorCode(), said.ErrorMessage(), status, err)
	case errors.As(err, &invalid):
		return err
	case answer != nil || errors.As(err, &unsent): // which has no answer that can be read, or was not sent as a whole
		return instancegroup.Transient(0, fmt.Errorf("%w (%w)", err, errLost))
	}
	return instancegroup.Transient(0, err) // what comes before it is sent: names, credentials
}

// refusal is the error for a code that AWS has answered with, in an error or in a list of them.
func refusal(operation, code, message string, status int, err error) error {
	kind, known := codes[code]
	if !known && status >= http.StatusInternalServerError {
		kind = instancegroup.ErrTransient
	}
	text := fmt.Sprintf("%s: %s: %s", operation, code, message)
	switch {
	case kind == nil:
		return fmt.Errorf("%s (%w)", text, err)
	case errors.Is(kind, errThrottled):
		return &instancegroup.Error{Kind: instancegroup.ErrTransient, Message: text, Err: errors.Join(err, errThrottled)}
	case errors.Is(kind, instancegroup.ErrTransient) && status >= http.StatusInternalServerError:
		err = errors.Join(err, errLost) // what fails in the middle of something may have had an effect
	}
	return &instancegroup.Error{Kind: kind, Message: text, Err: err}
}

// operation is the call that an error is of.
func operation(err error) string {
	var o *smithy.OperationError
	if errors.As(err, &o) {
		return o.Operation()
	}
	return "AWS"
}
