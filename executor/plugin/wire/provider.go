package wire

import (
	"context"
	"encoding/json"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	providerv1 "github.com/rungci/rung/api/rung/provider/v1"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/steps/event"
)

// ProviderStatus makes an error of a provider one that a call can return, with its identity. It returns nil for nil.
func ProviderStatus(err error) error {
	if err == nil {
		return nil
	}
	s := status.New(codes.Internal, clip(err.Error()))
	detailed, failed := s.WithDetails(EncodeProviderError(err))
	if failed != nil {
		return s.Err()
	}
	return detailed.Err()
}

// FromProviderStatus is the error that a call of a provider plugin failed with. ok is false where the plugin did not say: the connection is why.
func FromProviderStatus(err error) (out error, ok bool) {
	s, isStatus := status.FromError(err)
	if !isStatus {
		return err, false
	}
	for _, detail := range s.Details() {
		if e, is := detail.(*providerv1.Error); is {
			return option(e.GetOption(), DecodeProviderError(e)), true
		}
	}
	return err, false
}

// EncodeProviderError makes a message of an error that is not nil.
func EncodeProviderError(err error) *providerv1.Error {
	out := &providerv1.Error{Code: providerv1.Code_CODE_INTERNAL, Message: clip(err.Error()), Option: optionOf(err)}
	var none *provider.NoCapacity
	var gone *executor.Gone
	switch {
	case errors.As(err, &none):
		out.Code, out.Message, out.After = providerv1.Code_CODE_NO_CAPACITY, clip(none.Reason), duration(none.After)
	case errors.Is(err, executor.ErrClosed):
		out.Code = providerv1.Code_CODE_CLOSED
	case errors.As(err, &gone):
		out.Code, out.Message = providerv1.Code_CODE_GONE, clip(gone.Reason)
	case errors.Is(err, executor.ErrGone):
		out.Code = providerv1.Code_CODE_GONE
	case errors.Is(err, provider.ErrNotReserved):
		out.Code = providerv1.Code_CODE_NOT_RESERVED
	case errors.Is(err, provider.ErrReleased):
		out.Code = providerv1.Code_CODE_RELEASED
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		out.Code = providerv1.Code_CODE_CANCELLED
	}
	return out
}

// DecodeProviderError is the error that a message describes. It is not nil.
func DecodeProviderError(e *providerv1.Error) error {
	message := clip(e.GetMessage())
	if message == "" {
		message = "the plugin does not say why"
	}
	switch e.GetCode() {
	case providerv1.Code_CODE_NO_CAPACITY:
		return &provider.NoCapacity{Reason: message, After: e.GetAfter().AsDuration()}
	case providerv1.Code_CODE_NOT_RESERVED:
		return &named{message, provider.ErrNotReserved}
	case providerv1.Code_CODE_RELEASED:
		return &named{message, provider.ErrReleased}
	case providerv1.Code_CODE_GONE:
		return &executor.Gone{Reason: message}
	case providerv1.Code_CODE_CLOSED:
		return &executor.Gone{Reason: "it was given back", Err: executor.ErrClosed}
	case providerv1.Code_CODE_CANCELLED:
		return &named{message, context.Canceled}
	}
	return errors.New(message)
}

// EncodeNeeds makes a message of needs.
func EncodeNeeds(n provider.Needs) *providerv1.Needs {
	return &providerv1.Needs{Os: n.OS, Arch: n.Arch, Cpus: n.CPUs, Memory: n.Memory, Disk: n.Disk, Gpus: int32(n.GPUs), Labels: n.Labels} //nolint:gosec // nobody needs that many
}

// DecodeNeeds is what a message asks for.
func DecodeNeeds(m *providerv1.Needs) provider.Needs {
	return provider.Needs{
		OS: m.GetOs(), Arch: m.GetArch(), CPUs: m.GetCpus(), Memory: m.GetMemory(), Disk: m.GetDisk(), GPUs: int(m.GetGpus()), Labels: m.GetLabels(),
	}
}

// EncodeMachine makes a message of a machine, but for its life.
func EncodeMachine(m *provider.Machine) *providerv1.Machine {
	return &providerv1.Machine{
		Name: m.Name, Slot: int32(m.Slot), Level: string(m.Level), Env: m.Env, Temp: m.Temp, Fresh: m.Fresh, Handle: string(m.Handle), //nolint:gosec // machines have few slots
		Access: &providerv1.Access{
			Protocol: m.Access.Protocol, Address: m.Access.Address, User: m.Access.User, Key: m.Access.Key, KeyFile: m.Access.KeyFile,
			HostKey: m.Access.HostKey, KnownHosts: m.Access.KnownHosts, Jump: m.Access.Jump,
		},
	}
}

// DecodeMachine is the machine of a message, without a life. The error says what of it cannot be.
func DecodeMachine(m *providerv1.Machine) (*provider.Machine, error) {
	a := m.GetAccess()
	out := &provider.Machine{
		Name: clip(m.GetName()), Slot: int(m.GetSlot()), Level: executor.Level(m.GetLevel()), Env: m.GetEnv(), Temp: m.GetTemp(), Fresh: m.GetFresh(),
		Handle: json.RawMessage(m.GetHandle()),
		Access: provider.Access{
			Protocol: a.GetProtocol(), Address: a.GetAddress(), User: a.GetUser(), Key: a.GetKey(), KeyFile: a.GetKeyFile(),
			HostKey: a.GetHostKey(), KnownHosts: a.GetKnownHosts(), Jump: a.GetJump(),
		},
	}
	if !json.Valid(out.Handle) {
		return nil, errors.New("the handle of the machine is not JSON")
	}
	if out.Name == "" {
		return nil, errors.New("the machine has no name")
	}
	return out, out.Access.Validate()
}

// EncodeMachineReport makes a message of how far a machine is.
func EncodeMachineReport(p event.Preparing) *providerv1.Preparing {
	return &providerv1.Preparing{
		Phase: string(p.Phase), Subject: p.Subject, Current: p.Current, Total: p.Total, Unit: p.Unit, Done: p.Done, Duration: duration(p.Duration), Message: p.Message,
	}
}

// DecodeMachineReport is how far a machine is.
func DecodeMachineReport(m *providerv1.Preparing) event.Preparing {
	return event.Preparing{
		Phase: event.Phase(clip(m.GetPhase())), Subject: clip(m.GetSubject()), Current: m.GetCurrent(), Total: m.GetTotal(), Unit: clip(m.GetUnit()),
		Done: m.GetDone(), Duration: m.GetDuration().AsDuration(), Message: clip(m.GetMessage()),
	}
}
