package plugin

import (
	"context"

	fleetv1 "github.com/rungci/rung/api/rung/fleet/v1"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/wire"
	"github.com/rungci/rung/internal/pluginhost"
)

// Volumes implements group.Volumer, as what follows does.
func (g *Group) Volumes(ctx context.Context) (out []group.Volume, err error) {
	_, err = g.call(ctx, "Volumes", func(ctx context.Context, rpc client, _ *pluginhost.Call) error {
		answer, err := rpc.Volumes(ctx, &fleetv1.VolumesRequest{})
		for _, m := range answer.GetVolumes() {
			out = append(out, wire.DecodeVolume(m))
		}
		return err
	})
	return out, err
}

// CreateVolume implements group.Volumer.
func (g *Group) CreateVolume(ctx context.Context, r group.VolumeRequest) (out group.Volume, err error) {
	_, err = g.call(ctx, "CreateVolume", func(ctx context.Context, rpc client, _ *pluginhost.Call) error {
		answer, err := rpc.CreateVolume(ctx, &fleetv1.CreateVolumeRequest{Request: r.ID, Size: r.Size, Zone: r.Zone, Labels: r.Labels})
		out = wire.DecodeVolume(answer.GetVolume())
		return err
	})
	return out, err
}

// AttachVolume implements group.Volumer.
func (g *Group) AttachVolume(ctx context.Context, a group.Attachment) (at string, err error) {
	_, err = g.call(ctx, "AttachVolume", func(ctx context.Context, rpc client, _ *pluginhost.Call) error {
		answer, err := rpc.AttachVolume(ctx, &fleetv1.AttachVolumeRequest{Volume: a.Volume, Instance: a.Instance, Epoch: a.Epoch})
		at = answer.GetFolder()
		return err
	})
	return at, err
}

// DetachVolume implements group.Volumer.
func (g *Group) DetachVolume(ctx context.Context, a group.Attachment) error {
	_, err := g.call(ctx, "DetachVolume", func(ctx context.Context, rpc client, _ *pluginhost.Call) error {
		_, err := rpc.DetachVolume(ctx, &fleetv1.DetachVolumeRequest{Volume: a.Volume, Instance: a.Instance, Epoch: a.Epoch})
		return err
	})
	return err
}

// DeleteVolume implements group.Volumer.
func (g *Group) DeleteVolume(ctx context.Context, volume string) error {
	_, err := g.call(ctx, "DeleteVolume", func(ctx context.Context, rpc client, _ *pluginhost.Call) error {
		_, err := rpc.DeleteVolume(ctx, &fleetv1.DeleteVolumeRequest{Volume: volume})
		return err
	})
	return err
}
