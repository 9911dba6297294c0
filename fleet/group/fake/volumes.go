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
func (g *Group) free() {
	for _, v := range g.cloud.Volumes {
		if v.Instance == "" {
			continue
		}
		if _, _, err := g.cloud.existing(v.Instance, g.o.Clock.Now()); err != nil {
			v.Instance, v.Fence = "", max(v.Fence, v.Epoch)
		}
	}
}

// Volumes implements group.Volumer.
func (g *Group) Volumes(ctx context.Context) (out []group.Volume, err error) {
	err = g.call(ctx, Call{Name: "Volumes"}, func() error {
		g.free()
		for _, v := range g.cloud.Volumes {
			out = append(out, v.Volume)
		}
		return nil
	})
	return out, err
}

// Disks are all volumes as they are, for tests. It is not a call of the group.
func (g *Group) Disks() (out []group.Volume) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free()
	for _, v := range g.cloud.Volumes {
		out = append(out, v.Volume)
	}
	return out
}

// CreateVolume implements group.Volumer.
func (g *Group) CreateVolume(ctx context.Context, r group.VolumeRequest) (out group.Volume, err error) {
	err = g.call(ctx, Call{Name: "CreateVolume"}, func() error {
		if i := slices.IndexFunc(g.cloud.Volumes, func(v *volume) bool { return v.Request == r.ID }); i >= 0 {
			out = g.cloud.Volumes[i].Volume
			return nil
		}
		g.cloud.VolumesMade++
		out = group.Volume{ID: fmt.Sprintf("volume-%d", g.cloud.VolumesMade), Request: r.ID, Size: r.Size, Zone: r.Zone, Labels: r.Labels, Created: g.o.Clock.Now()}
		g.cloud.Volumes = append(g.cloud.Volumes, &volume{Volume: out})
		return nil
	})
	return out, err
}

// AttachVolume implements group.Volumer.
func (g *Group) AttachVolume(ctx context.Context, a group.Attachment) (folder string, err error) {
	err = g.call(ctx, Call{Name: "AttachVolume", Instances: []string{a.Instance}}, func() error {
		g.free()
		v, err := g.cloud.volume(a.Volume)
		if err != nil {
			return err
		}
		_, now, err := g.cloud.existing(a.Instance, g.o.Clock.Now())
		switch {
		case a.Epoch <= v.Fence || a.Epoch < v.Epoch:
			return inUse("epoch %d of %s is over", a.Epoch, v.ID)
		case v.Instance != "" && v.Instance != a.Instance:
			return inUse("%s is on %s", v.ID, v.Instance)
		case err != nil || now.State != group.StateRunning:
			return &group.Error{Kind: group.ErrNotFound, Message: "there is no machine " + a.Instance + " that runs"}
		}
		v.Instance, v.Epoch, folder = a.Instance, a.Epoch, "/volumes/"+v.ID
		return nil
	})
	return folder, err
}

// DetachVolume implements group.Volumer.
func (g *Group) DetachVolume(ctx context.Context, a group.Attachment) error {
	return g.call(ctx, Call{Name: "DetachVolume", Instances: []string{a.Instance}}, func() error {
		v, err := g.cloud.volume(a.Volume)
		if err != nil || v.Instance != "" && a.Epoch < v.Epoch {
			return err
		}
		v.Instance, v.Fence = "", max(v.Fence, a.Epoch)
		return nil
	})
}

// DeleteVolume implements group.Volumer.
func (g *Group) DeleteVolume(ctx context.Context, id string) error {
	return g.call(ctx, Call{Name: "DeleteVolume"}, func() error {
		g.free()
		if v, err := g.cloud.volume(id); err == nil && v.Instance != "" {
			return inUse("%s is on %s", v.ID, v.Instance)
		}
		g.cloud.Volumes = slices.DeleteFunc(g.cloud.Volumes, func(v *volume) bool { return v.ID == id })
		return nil
	})
}
