package group

import (
	"context"
	"fmt"
	"maps"
	"path"
	"strings"
	"time"
)

// Volumer is a group with volumes: storage that outlives machines, and is on one of them at a time.
//
// Every call can be repeated, by this process or by another one, and returns once what it asks for is so: until then, the error is ErrTransient.
type Volumer interface {
	// Volumes are those of the group, with their labels.
	Volumes(ctx context.Context) ([]Volume, error)
	// CreateVolume makes an empty volume. One with the same request id that exists is returned as it is.
	CreateVolume(ctx context.Context, request VolumeRequest) (Volume, error)
	// AttachVolume brings a volume to a machine that runs, and returns where that has it (at): the folder in which the machine's user has it, or the path of a block
	// device, below /dev, which the host then gives a file system and mounts. The device may appear a little later, and its path is that of no other volume. The error is
	// ErrInUse if the volume is on another machine, or was detached with this epoch or a later one: the call comes too late. It is ErrNotFound without such a machine or volume.
	AttachVolume(ctx context.Context, a Attachment) (at string, err error)
	// DetachVolume takes a volume from a machine. It has worked if the volume is on no machine, and no call of AttachVolume with this epoch or an earlier one can bring it
	// to one any more. A volume that was attached with a later epoch stays where it is. ErrNotFound is that the volume does not exist.
	DetachVolume(ctx context.Context, a Attachment) error
	// DeleteVolume ends a volume, with what is on it. The error is ErrInUse if it is on a machine. One that does not exist is deleted.
	DeleteVolume(ctx context.Context, volume string) error
}

// Volumeless is a Volumer that has no volumes with some of its options.
type Volumeless interface {
	// NoVolumes is why it has none with its options; nil: it has some. It can be called before Init. An error about options is options.Errors.
	NoVolumes() error
}

// NoVolumes is why a group, or the cloud of one, has no volumes; nil: it has some. Of a group at the other end of a wire it is known after Init.
func NoVolumes(of any) error {
	if v, ok := of.(Volumeless); ok {
		if err := v.NoVolumes(); err != nil {
			return err
		}
	}
	_, has := of.(Volumer)
	if a, ok := of.(Abler); ok {
		has = a.Abilities().Volumes
	}
	if !has {
		return errNoVolumes
	}
	return nil
}

// NoVolumes is why the group has no volumes; nil: it has some.
func (g *Group) NoVolumes() error { return NoVolumes(g.basic) }

// Volume is storage that a machine can have.
type Volume struct {
	// ID is the cloud's, and never used again.
	ID string
	// Request is the id of the request that it was made for.
	Request string
	Size    int64 // bytes
	Zone    string
	// Instance is the machine that has it, or may have; empty: none.
	Instance string
	// Labels are those of the volume, OwnerLabel among them.
	Labels  map[string]string
	Created time.Time
}

// VolumeRequest is what is asked for.
type VolumeRequest struct {
	// ID names the request for good, as Request.ID does.
	ID string
	// Size is in bytes.
	Size int64
	// Zone is where the machines are that can have it; empty: anywhere.
	Zone string
	// Labels are put on the volume, beside those of Settings.
	Labels map[string]string
}

// Attachment is a volume on a machine.
type Attachment struct {
	Volume, Instance string
	// Epoch grows with each attachment of the volume.
	Epoch uint64
}

// Volumes are those of the group's owner; none where the group has no volumes.
func (g *Group) Volumes(ctx context.Context) (out []Volume, err error) {
	if !g.Can().Volumes {
		return nil, nil
	}
	all, err := g.basic.(Volumer).Volumes(ctx)
	g.mu.Lock()
	owner := g.settings.Owner
	g.mu.Unlock()
	for _, v := range all {
		if v.Labels[OwnerLabel] == owner && v.ID != "" {
			out = append(out, v)
		}
	}
	return out, err
}

// CreateVolume is Volumer's.
func (g *Group) CreateVolume(ctx context.Context, r VolumeRequest) (Volume, error) {
	if err := (Request{ID: r.ID, Count: 1}).check(); err != nil {
		return Volume{}, err
	}
	if r.Size <= 0 {
		return Volume{}, fmt.Errorf("the request %s must be for a volume of 1 byte or more, not %d", r.ID, r.Size)
	}
	if !g.Can().Volumes {
		return Volume{}, errNoVolumes
	}
	g.mu.Lock()
	r.Labels = g.settings.labels(Request{ID: r.ID, Labels: maps.Clone(r.Labels)})
	g.mu.Unlock()
	v, err := g.basic.(Volumer).CreateVolume(ctx, r)
	if err == nil && v.ID == "" {
		err = fmt.Errorf("the group has made a volume for the request %s, and does not say which", r.ID)
	}
	return v, err
}

// AttachVolume is Volumer's.
func (g *Group) AttachVolume(ctx context.Context, a Attachment) (at string, err error) {
	if !g.Can().Volumes {
		return "", errNoVolumes
	}
	at, err = g.basic.(Volumer).AttachVolume(ctx, a)
	if err == nil && (!path.IsAbs(at) || path.Clean(at) != at || at == "/" || at == devices) {
		err = fmt.Errorf("the group says that the volume %s is at %q, which is not the path of a folder or a device", a.Volume, at)
	}
	return at, err
}

const devices = "/dev"

// IsDevice reports whether what AttachVolume returns is a block device, and not a folder.
func IsDevice(at string) bool { return strings.HasPrefix(at, devices+"/") }

// DetachVolume is Volumer's.
func (g *Group) DetachVolume(ctx context.Context, a Attachment) error {
	if !g.Can().Volumes {
		return errNoVolumes
	}
	return g.basic.(Volumer).DetachVolume(ctx, a)
}

// DeleteVolume is Volumer's.
func (g *Group) DeleteVolume(ctx context.Context, volume string) error {
	if !g.Can().Volumes {
		return errNoVolumes
	}
	return g.basic.(Volumer).DeleteVolume(ctx, volume)
}

var errNoVolumes = &Error{Kind: ErrUnsupported, Message: "the group has no volumes"}
