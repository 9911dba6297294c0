package instancegroup

import (
	"context"

	"github.com/rungci/rung/fleet/group"
)

// Volumes are storage that outlives machines. A group or a cloud that has some implements Volumer.
type (
	Volumer       = group.Volumer
	Volumeless    = group.Volumeless
	Volume        = group.Volume
	VolumeRequest = group.VolumeRequest
	Attachment    = group.Attachment
)

// ErrInUse says that a volume is on another machine, or was attached again since.
var ErrInUse = group.ErrInUse

// NoVolumes implements Volumeless.
func (m *machines) NoVolumes() error { return group.NoVolumes(m.cloud) }

// Volumes implements Volumer, as what follows does.
func (m *machines) Volumes(ctx context.Context) ([]Volume, error) {
	return m.cloud.(Volumer).Volumes(ctx)
}

// CreateVolume implements Volumer.
func (m *machines) CreateVolume(ctx context.Context, r VolumeRequest) (Volume, error) {
	return m.cloud.(Volumer).CreateVolume(ctx, r)
}

// AttachVolume implements Volumer.
func (m *machines) AttachVolume(ctx context.Context, a Attachment) (string, error) {
	return m.cloud.(Volumer).AttachVolume(ctx, a)
}

// DetachVolume implements Volumer.
func (m *machines) DetachVolume(ctx context.Context, a Attachment) error {
	return m.cloud.(Volumer).DetachVolume(ctx, a)
}

// DeleteVolume implements Volumer.
func (m *machines) DeleteVolume(ctx context.Context, id string) error {
	return m.cloud.(Volumer).DeleteVolume(ctx, id)
}
