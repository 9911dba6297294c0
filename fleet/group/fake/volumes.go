package fake

import (
	"context"
	"fmt"
	"slices"

	"github.com/rungci/rung/fleet/group"
)

// volume is one volume. What is on it is not kept.
type volume struct {
	group.Volume
	Epoch, Fence uint64 // of the attachment; attachments up to the second come too late
}

var _ group.Volumer = (*Group)(nil)

// disks are the volumes of a group, which has their calls.
type disks struct{ g *Group }

// volume finds a volume.
func (c *cloud) volume(id string) (*volume, error) {
	for _, v := range c.Volumes {
		if v.ID == id {
			return v, nil
		}
	}
	return nil, &group.Error{Kind: group.ErrNotFound, Message: "there is no volume " + id}
}

func inUse(format string, args ...any) error {
	return &group.Error{Kind: group.ErrInUse, Message: fmt.Sprintf(format, args...)}
}

// free lets volumes go whose machines do not exist any more.
func (d *disks) free() {
	for _, v := range d.g.cloud.Volumes {
		if v.Instance == "" {
			continue
		}
		if _, _, err := d.g.cloud.existing(v.Instance, d.g.o.Clock.Now()); err != nil {
			v.Instance, v.Fence = "", max(v.Fence, v.Epoch)
		}
	}
}

// Volumes implements group.Volumer.
func (d *disks) Volumes(ctx context.Context) (out []group.Volume, err error) {
	err = d.g.call(ctx, Call{Name: "Volumes"}, func() error {
		d.free()
		for _, v := range d.g.cloud.Volumes {
			out = append(out, v.Volume)
		}
		return nil
	})
	return out, err
}

// Disks are all volumes as they are, for tests. It is not a call of the group.
func (d *disks) Disks() (out []group.Volume) {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	d.free()
	for _, v := range d.g.cloud.Volumes {
		out = append(out, v.Volume)
	}
	return out
}

// CreateVolume implements group.Volumer.
func (d *disks) CreateVolume(ctx context.Context, r group.VolumeRequest) (out group.Volume, err error) {
	err = d.g.call(ctx, Call{Name: "CreateVolume"}, func() error {
		if i := slices.IndexFunc(d.g.cloud.Volumes, func(v *volume) bool { return v.Request == r.ID }); i >= 0 {
			out = d.g.cloud.Volumes[i].Volume
			return nil
		}
		d.g.cloud.VolumesMade++
		out = group.Volume{ID: fmt.Sprintf("volume-%d", d.g.cloud.VolumesMade), Request: r.ID, Size: r.Size, Zone: r.Zone, Labels: r.Labels, Created: d.g.o.Clock.Now()}
		d.g.cloud.Volumes = append(d.g.cloud.Volumes, &volume{Volume: out})
		return nil
	})
	return out, err
}

// AttachVolume implements group.Volumer.
func (d *disks) AttachVolume(ctx context.Context, a group.Attachment) (at string, err error) {
	err = d.g.call(ctx, Call{Name: "AttachVolume", Instances: []string{a.Instance}}, func() error {
		d.free()
		v, err := d.g.cloud.volume(a.Volume)
		if err != nil {
			return err
		}
		_, now, err := d.g.cloud.existing(a.Instance, d.g.o.Clock.Now())
		switch {
		case a.Epoch <= v.Fence || a.Epoch < v.Epoch:
			return inUse("epoch %d of %s is over", a.Epoch, v.ID)
		case v.Instance != "" && v.Instance != a.Instance:
			return inUse("%s is on %s", v.ID, v.Instance)
		case err != nil || now.State != group.StateRunning:
			return &group.Error{Kind: group.ErrNotFound, Message: "there is no machine " + a.Instance + " that runs"}
		}
		v.Instance, v.Epoch, at = a.Instance, a.Epoch, "/volumes/"+v.ID
		if d.g.o.Device != nil {
			at = d.g.o.Device(v.ID)
		}
		return nil
	})
	return at, err
}

// DetachVolume implements group.Volumer.
func (d *disks) DetachVolume(ctx context.Context, a group.Attachment) error {
	return d.g.call(ctx, Call{Name: "DetachVolume", Instances: []string{a.Instance}}, func() error {
		v, err := d.g.cloud.volume(a.Volume)
		if err != nil || v.Instance != "" && a.Epoch < v.Epoch {
			return err
		}
		v.Instance, v.Fence = "", max(v.Fence, a.Epoch)
		return nil
	})
}

// DeleteVolume implements group.Volumer.
func (d *disks) DeleteVolume(ctx context.Context, id string) error {
	return d.g.call(ctx, Call{Name: "DeleteVolume"}, func() error {
		d.free()
		if v, err := d.g.cloud.volume(id); err == nil && v.Instance != "" {
			return inUse("%s is on %s", v.ID, v.Instance)
		}
		d.g.cloud.Volumes = slices.DeleteFunc(d.g.cloud.Volumes, func(v *volume) bool { return v.ID == id })
		return nil
	})
}
