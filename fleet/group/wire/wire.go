// Package wire is what both ends of a connection to an instance-group plugin share beyond the handshake: the contract's types as messages of api/rung/fleet/v1.
package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "github.com/rungci/rung/api/rung/fleet/v1"
	"github.com/rungci/rung/fleet/group"
)

// Page is how many instances one message of a list holds at most.
const Page = 500

var states = map[group.State]fleetv1.State{
	group.StateCreating: fleetv1.State_STATE_CREATING, group.StateRunning: fleetv1.State_STATE_RUNNING,
	group.StateSuspending: fleetv1.State_STATE_SUSPENDING, group.StateSuspended: fleetv1.State_STATE_SUSPENDED,
	group.StateTimeout: fleetv1.State_STATE_TIMEOUT, group.StateFailed: fleetv1.State_STATE_FAILED,
	group.StateDeleting: fleetv1.State_STATE_DELETING, group.StateDeleted: fleetv1.State_STATE_DELETED,
}

var statesBack = swapped(states)

func swapped[A, B comparable](m map[A]B) map[B]A {
	out := map[B]A{}
	for a, b := range m {
		out[b] = a
	}
	return out
}

// EncodeInstance makes a message of an instance. A state that the contract does not have is STATE_UNSPECIFIED.
func EncodeInstance(i group.Instance) *fleetv1.Instance {
	out := &fleetv1.Instance{
		Id: i.ID, State: states[i.State], Reason: clip(i.Reason), Shape: i.Shape, Zone: i.Zone, Spot: i.Spot, Labels: i.Labels, Request: i.Request, Created: timestamp(i.Created),
	}
	if i.Interruption != nil {
		out.Interruption = &fleetv1.Interruption{At: timestamp(i.Interruption.At), Reason: clip(i.Interruption.Reason)}
	}
	return out
}

// DecodeInstance is the instance of a message. A state that is not known is its name, which group.State.Known reports.
func DecodeInstance(m *fleetv1.Instance) group.Instance {
	out := group.Instance{
		ID: m.GetId(), State: statesBack[m.GetState()], Reason: clip(m.GetReason()), Shape: m.GetShape(), Zone: m.GetZone(), Spot: m.GetSpot(),
		Labels: m.GetLabels(), Request: m.GetRequest(), Created: moment(m.GetCreated()),
	}
	if out.State == "" {
		out.State = group.State(m.GetState().String())
	}
	if n := m.GetInterruption(); n != nil {
		out.Interruption = &group.Interruption{At: moment(n.GetAt()), Reason: clip(n.GetReason())}
	}
	return out
}

// EncodeOffer makes a message of an offer.
func EncodeOffer(o group.Offer) *fleetv1.Offer {
	return &fleetv1.Offer{
		Shape: o.Shape, Os: o.OS, Arch: o.Arch, Cpus: o.CPUs, Memory: o.Memory, Disk: o.Disk, Gpus: int32(o.GPUs), Gpu: o.GPU, Zone: o.Zone, Spot: o.Spot, //nolint:gosec // no machine has that many
		Price: o.Price, SuspendedPrice: o.SuspendedPrice, Currency: o.Currency, Minimum: duration(o.Minimum), Step: duration(o.Step),
	}
}

// DecodeOffer is the offer of a message.
func DecodeOffer(m *fleetv1.Offer) group.Offer {
	return group.Offer{
		Shape: m.GetShape(), OS: m.GetOs(), Arch: m.GetArch(), CPUs: m.GetCpus(), Memory: m.GetMemory(), Disk: m.GetDisk(), GPUs: int(m.GetGpus()), GPU: m.GetGpu(),
		Zone: m.GetZone(), Spot: m.GetSpot(), Price: m.GetPrice(), SuspendedPrice: m.GetSuspendedPrice(), Currency: m.GetCurrency(), Minimum: m.GetMinimum().AsDuration(), Step: m.GetStep().AsDuration(),
	}
}

// EncodeConnector makes a message of how instances are reached.
func EncodeConnector(c group.ConnectorConfig) *fleetv1.Connector {
	return &fleetv1.Connector{
		Os: c.OS, Arch: c.Arch, Protocol: string(c.Protocol), Port: int32(c.ProtocolPort), Username: c.Username, Password: c.Password, Key: c.Key, //nolint:gosec // a port
		UseStaticCredentials: c.UseStaticCredentials, Keepalive: duration(c.Keepalive), Timeout: duration(c.Timeout),
	}
}

// DecodeConnector is how instances are reached.
func DecodeConnector(m *fleetv1.Connector) group.ConnectorConfig {
	return group.ConnectorConfig{
		OS: m.GetOs(), Arch: m.GetArch(), Protocol: group.Protocol(m.GetProtocol()), ProtocolPort: int(m.GetPort()), Username: m.GetUsername(), Password: m.GetPassword(),
		Key: m.GetKey(), UseStaticCredentials: m.GetUseStaticCredentials(), Keepalive: m.GetKeepalive().AsDuration(), Timeout: m.GetTimeout().AsDuration(),
	}
}

// EncodeConnectInfo makes a message of how one instance is reached.
func EncodeConnectInfo(i group.ConnectInfo) *fleetv1.ConnectInfoResponse {
	out := &fleetv1.ConnectInfoResponse{
		Id: i.ID, Connector: EncodeConnector(i.ConnectorConfig), ExternalAddr: i.ExternalAddr, InternalAddr: i.InternalAddr, HostKeys: i.HostKeys,
	}
	if i.Expires != nil {
		out.Expires = timestamppb.New(*i.Expires)
	}
	return out
}

// DecodeConnectInfo is how one instance is reached.
func DecodeConnectInfo(m *fleetv1.ConnectInfoResponse) group.ConnectInfo {
	out := group.ConnectInfo{
		ConnectorConfig: DecodeConnector(m.GetConnector()), ID: m.GetId(), ExternalAddr: m.GetExternalAddr(), InternalAddr: m.GetInternalAddr(), HostKeys: m.GetHostKeys(),
	}
	if m.GetExpires() != nil {
		at := m.GetExpires().AsTime()
		out.Expires = &at
	}
	return out
}

// EncodeMetric makes a message of a metric.
func EncodeMetric(m group.Metric) *fleetv1.Metric {
	return &fleetv1.Metric{Name: m.Name, Help: m.Help, Counter: m.Counter, Labels: m.Labels, Value: m.Value}
}

// DecodeMetric is the metric of a message.
func DecodeMetric(m *fleetv1.Metric) group.Metric {
	return group.Metric{Name: m.GetName(), Help: clip(m.GetHelp()), Counter: m.GetCounter(), Labels: m.GetLabels(), Value: m.GetValue()}
}

// EncodeVolume makes a message of a volume.
func EncodeVolume(v group.Volume) *fleetv1.Volume {
	return &fleetv1.Volume{Id: v.ID, Request: v.Request, Size: v.Size, Zone: v.Zone, Instance: v.Instance, Labels: v.Labels, Created: timestamp(v.Created)}
}

// DecodeVolume is the volume of a message.
func DecodeVolume(m *fleetv1.Volume) group.Volume {
	return group.Volume{
		ID: m.GetId(), Request: m.GetRequest(), Size: m.GetSize(), Zone: m.GetZone(), Instance: m.GetInstance(), Labels: m.GetLabels(), Created: moment(m.GetCreated()),
	}
}

// EncodeSettings makes the message that opens a plugin.
func EncodeSettings(s group.Settings, options string) *fleetv1.OpenRequest {
	return &fleetv1.OpenRequest{Options: options, Connector: EncodeConnector(s.ConnectorConfig), Owner: s.Owner, Labels: s.Labels, State: s.State}
}

// DecodeSettings are those of the message that opens a plugin.
func DecodeSettings(m *fleetv1.OpenRequest) group.Settings {
	return group.Settings{ConnectorConfig: DecodeConnector(m.GetConnector()), Owner: m.GetOwner(), Labels: m.GetLabels(), State: m.GetState()}
}

// EncodeOpened makes the message that says what a group is.
func EncodeOpened(i group.ProviderInfo, can group.Abilities) *fleetv1.OpenResponse {
	out := &fleetv1.OpenResponse{Id: i.ID, MaxSize: int64(i.MaxSize), Version: i.Version, BuildInfo: i.BuildInfo}
	for _, a := range abilities {
		if *a.of(&can) {
			out.Abilities = append(out.Abilities, a.code)
		}
	}
	return out
}

// DecodeOpened is what a group is.
func DecodeOpened(m *fleetv1.OpenResponse) (i group.ProviderInfo, can group.Abilities) {
	i = group.ProviderInfo{ID: m.GetId(), MaxSize: int(m.GetMaxSize()), Version: m.GetVersion(), BuildInfo: m.GetBuildInfo()}
	for _, code := range m.GetAbilities() {
		for _, a := range abilities {
			if a.code == code {
				*a.of(&can) = true
			}
		}
	}
	if can.Suspend {
		i.Capabilities = []group.Capability{group.CapabilitySuspendResume}
	}
	return i, can
}

var abilities = []struct {
	code fleetv1.Ability
	of   func(*group.Abilities) *bool
}{
	{fleetv1.Ability_ABILITY_DETAILS, func(a *group.Abilities) *bool { return &a.Details }},
	{fleetv1.Ability_ABILITY_WATCH, func(a *group.Abilities) *bool { return &a.Watch }},
	{fleetv1.Ability_ABILITY_OFFERS, func(a *group.Abilities) *bool { return &a.Offers }},
	{fleetv1.Ability_ABILITY_REQUESTS, func(a *group.Abilities) *bool { return &a.Requests }},
	{fleetv1.Ability_ABILITY_HEARTBEAT, func(a *group.Abilities) *bool { return &a.Heartbeat }},
	{fleetv1.Ability_ABILITY_SUSPEND, func(a *group.Abilities) *bool { return &a.Suspend }},
	{fleetv1.Ability_ABILITY_METRICS, func(a *group.Abilities) *bool { return &a.Metrics }},
	{fleetv1.Ability_ABILITY_VOLUMES, func(a *group.Abilities) *bool { return &a.Volumes }},
}

func duration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func moment(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
