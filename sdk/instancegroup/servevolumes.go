package instancegroup

import (
	"context"

	fleetv1 "github.com/rungci/rung/api/rung/fleet/v1"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/wire"
)

// with does something with a group that has volumes.
func (s *server) with(do func(Volumer) error) error {
	return s.having(func(can group.Abilities) bool { return can.Volumes }, func() error { return do(s.group.(Volumer)) })
}

// Volumes implements fleetv1.InstanceGroupServer.
func (s *server) Volumes(ctx context.Context, _ *fleetv1.VolumesRequest) (*fleetv1.VolumesResponse, error) {
	out := &fleetv1.VolumesResponse{}
	return out, s.with(func(g Volumer) error {
		all, err := g.Volumes(ctx)
		for _, v := range all {
			out.Volumes = append(out.Volumes, wire.EncodeVolume(v))
		}
		return err
	})
}

// CreateVolume implements fleetv1.InstanceGroupServer.
func (s *server) CreateVolume(ctx context.Context, r *fleetv1.CreateVolumeRequest) (*fleetv1.CreateVolumeResponse, error) {
	out := &fleetv1.CreateVolumeResponse{}
	return out, s.with(func(g Volumer) error {
		v, err := g.CreateVolume(ctx, VolumeRequest{ID: r.GetRequest(), Size: r.GetSize(), Zone: r.GetZone(), Labels: r.GetLabels()})
		out.Volume = wire.EncodeVolume(v)
		return err
	})
}

// AttachVolume implements fleetv1.InstanceGroupServer.
func (s *server) AttachVolume(ctx context.Context, r *fleetv1.AttachVolumeRequest) (*fleetv1.AttachVolumeResponse, error) {
	out := &fleetv1.AttachVolumeResponse{}
	return out, s.with(func(g Volumer) (err error) {
		out.Folder, err = g.AttachVolume(ctx, Attachment{Volume: r.GetVolume(), Instance: r.GetInstance(), Epoch: r.GetEpoch()})
		return err
	})
}

// DetachVolume implements fleetv1.InstanceGroupServer.
func (s *server) DetachVolume(ctx context.Context, r *fleetv1.DetachVolumeRequest) (*fleetv1.DetachVolumeResponse, error) {
	return &fleetv1.DetachVolumeResponse{}, s.with(func(g Volumer) error {
		return g.DetachVolume(ctx, Attachment{Volume: r.GetVolume(), Instance: r.GetInstance(), Epoch: r.GetEpoch()})
	})
}

// DeleteVolume implements fleetv1.InstanceGroupServer.
func (s *server) DeleteVolume(ctx context.Context, r *fleetv1.DeleteVolumeRequest) (*fleetv1.DeleteVolumeResponse, error) {
	return &fleetv1.DeleteVolumeResponse{}, s.with(func(g Volumer) error { return g.DeleteVolume(ctx, r.GetVolume()) })
}
