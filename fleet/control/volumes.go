package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/store"
)

const (
	// listVolumes is how often the volumes of a group are listed, to find those that nobody knows.
	listVolumes = 10 * time.Minute
	// ProjectLabel is the label of volumes with whose they are.
	ProjectLabel = "rung-project"
)

// calling is a call about a volume: there is one at a time for each.
type calling struct {
	volume, request string
	state           scale.VolumeState
	epoch           uint64
}

// followVolumes brings what is to be recorded to what scale has. The caller holds the lock.
func (f *book) followVolumes(now time.Time, created uint64) {
	changed, gone := f.scale.VolumeChanges()
	for _, rec := range changed {
		f.nameFound(rec)
		f.pending.keepVolume(rec)
		f.volumes[rec.Name] = rec
	}
	for _, name := range gone {
		f.pending.loseVolume(name)
		if told, was := f.told[name]; was && told.state != scale.VolumeDeleting {
			f.entries = append(f.entries, store.Entry{At: now, Kind: store.DeleteVolume, Pool: f.volumes[name].Pool, Volume: name, Why: "it does not exist"})
		}
		delete(f.told, name)
		delete(f.volumes, name)
	}
	if len(changed)+len(gone) > 0 {
		f.pending.created = created
	}
}

// nameFound tells people of a volume that was found and that no record had, once in each process if they are to see to it. The caller holds the lock.
func (f *book) nameFound(rec scale.VolumeRecord) {
	_, known := f.volumes[rec.Name]
	switch {
	case known || rec.Found.IsZero():
	case rec.State == scale.VolumeUnknown:
		f.log.Warn(fmt.Sprintf("a volume of this fleet is not recorded; it is kept for at least %d days. Delete it in the cloud if you do not need it",
			scale.KeepUnknown/(24*time.Hour)), "volume", rec.ID, "request", rec.Request, "instance", rec.Instance, "found", rec.Found)
	default:
		f.log.Info("a volume that was in no record is its project's again", "volume", rec.ID, "project", rec.Name, "instance", rec.Instance)
	}
}

// doVolume does what was decided about a volume, and recorded, unless that is under way. The caller holds the lock.
func doVolume(f *Fleet, a scale.Action) {
	rec, known := f.volumes[a.Volume]
	call := calling{rec.Name, rec.Request, rec.State, rec.Epoch}
	c := f.cloudOf(rec.Pool)
	switch {
	case !known || volumeCalls[rec.State] != a.Kind || f.calling[call]: // it has changed since
		return
	case c == nil:
		f.log.Error("a volume cannot be looked after, as its pool is not in the configuration any more; bring the pool back, or delete the volume by hand", "pool", rec.Pool, "volume", rec.ID)
		return
	case f.closing && rec.State != scale.VolumeDetaching && rec.State != scale.VolumeDeleting:
		return
	}
	f.calling[call] = true
	m := f.machines[rec.Machine]
	f.launch(func() {
		tell, err := c.volume(rec, m)
		f.tell(func(now time.Time) {
			delete(f.calling, call)
			if err == nil {
				tell(now)
				return
			}
			failure := failureOf(err)
			if errors.Is(err, group.ErrInUse) {
				failure.Kind = scale.Transient
			}
			f.scale.VolumeFailed(now, rec, failure)
			if _, later := group.RetryAfter(err); !later {
				c.note(now, scale.InstanceRecord{Pool: rec.Pool}, fmt.Sprintf("the volume %s of %s is %s", rec.ID, rec.Name, rec.State), err)
			}
		})
	})
}

var volumeCalls = map[scale.VolumeState]scale.Kind{
	scale.VolumeCreating: scale.CreateVolume, scale.VolumeAttaching: scale.AttachVolume, scale.VolumeDetaching: scale.DetachVolume, scale.VolumeDeleting: scale.DeleteVolume,
}

// volume makes the call that a volume is due for. m is its machine; nil: it has none, or that is gone. tell passes on that it has worked.
func (c *cloud) volume(rec scale.VolumeRecord, m *machine) (tell func(now time.Time), err error) {
	f, at := c.f, group.Attachment{Volume: rec.ID, Instance: rec.Instance, Epoch: rec.Epoch}
	switch rec.State {
	case scale.VolumeCreating:
		r := group.VolumeRequest{ID: rec.Request, Size: f.o.Scale.Volumes.Size, Zone: rec.Zone, Labels: map[string]string{ProjectLabel: rec.Name}}
		made, err := change(c, func(ctx context.Context) (group.Volume, error) { return c.group.CreateVolume(ctx, r) })
		if whose := made.Labels[ProjectLabel]; err == nil && whose != rec.Name {
			err = &group.Error{Kind: group.ErrNotFound, Message: fmt.Sprintf("the group answers with the volume %s of %q, which is not the one that was asked for (%s)", made.ID, whose, rec.Request)}
		}
		return func(now time.Time) { f.scale.VolumeCreated(now, rec.Name, rec.Request, made.ID, made.Zone) }, err
	case scale.VolumeAttaching:
		folder, err := change(c, func(ctx context.Context) (string, error) { return c.group.AttachVolume(ctx, at) })
		if err == nil && group.IsDevice(folder) {
			folder, err = c.mount(m, rec, folder)
		}
		return func(now time.Time) { f.scale.VolumeAttached(now, rec, folder) }, err
	case scale.VolumeDetaching:
		if err := c.unmount(m, rec); err != nil {
			return nil, err
		}
		_, err := change(c, func(ctx context.Context) (struct{}, error) { return struct{}{}, c.group.DetachVolume(ctx, at) })
		return func(now time.Time) { f.scale.VolumeDetached(now, rec) }, err
	}
	_, err = change(c, func(ctx context.Context) (struct{}, error) { return struct{}{}, c.group.DeleteVolume(ctx, rec.ID) })
	return func(now time.Time) { f.scale.VolumeDeleted(now, rec) }, err
}

// change makes a call of a group that changes something, as one of so many at once.
func change[T any](c *cloud, do func(context.Context) (T, error)) (out T, err error) {
	if !c.enter(c.creates) {
		return out, context.Canceled
	}
	defer func() { <-c.creates }()
	return call(c.f.calls, c, c.f.o.CallTimeout, do)
}

// mount gives a machine a volume that is a block device, and returns the folder that it is in then. Its file system may have to be repaired.
func (c *cloud) mount(m *machine, rec scale.VolumeRecord, device string) (folder string, err error) {
	f := c.f
	of, state := c.visited(m)
	switch {
	case state >= scale.Suspended: // the lists tell
		return "", group.Transient(0, fmt.Errorf("the machine %s is gone or ending", rec.Instance))
	case f.o.Mount == nil:
		return "", errors.New("internal error: the volume is a block device, and nothing mounts those")
	}
	var at string
	err = f.visit(f.calls, m, f.o.PrepareTimeout, func(ctx context.Context) (err error) {
		at, err = f.o.Mount(ctx, &of, rec.ID, device)
		return err
	})
	if err != nil { // it may have been given up, and write at yet
		return "", err
	}
	return at, nil
}

// unmount takes a volume back from the file system of a machine, if that has it there. One that is ending or suspended may not answer any more, or will not
// need the volume again: it is asked once, for a short time.
func (c *cloud) unmount(m *machine, rec scale.VolumeRecord) error {
	f := c.f
	of, state := c.visited(m)
	if f.o.Unmount == nil || state == scale.Gone {
		return nil
	}
	limit := f.o.CallTimeout
	if state >= scale.Suspended {
		limit = f.o.CheckTimeout
	}
	err := f.visit(f.calls, m, limit, func(ctx context.Context) error { return f.o.Unmount(ctx, &of, rec.ID, rec.Folder) })
	if err != nil && state >= scale.Suspended {
		f.log.Debug("a volume is not unmounted, as its machine ends or is suspended", "volume", rec.ID, "instance", rec.Instance, "error", err)
		return nil
	}
	return err
}

// visited is a machine for who visits it, and its state; scale.Gone where there is none.
func (c *cloud) visited(m *machine) (Machine, scale.State) {
	if m == nil {
		return Machine{}, scale.Gone
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return m.public(), m.rec.State
}

// noteVolume puts what was decided about a volume into the history, once. The caller holds the lock.
func (f *book) noteVolume(now time.Time, a scale.Action) {
	rec := f.volumes[a.Volume]
	told := calling{rec.Name, rec.Request, rec.State, rec.Epoch}
	if f.told[a.Volume] == told {
		return
	}
	f.told[a.Volume] = told
	e := store.Entry{At: now, Kind: volumeKinds[a.Kind], Pool: a.Pool, Request: rec.Machine, Instance: rec.Instance, Volume: rec.Name, Why: a.Why, Began: rec.Created, Price: f.volumePrice}
	f.entries = append(f.entries, e)
	f.log.Info(string(e.Kind), "pool", a.Pool, "volume", rec.ID, "project", rec.Name, "instance", rec.Instance, "epoch", rec.Epoch, "why", a.Why)
}

var volumeKinds = map[scale.Kind]store.Kind{
	scale.CreateVolume: store.CreateVolume, scale.AttachVolume: store.AttachVolume, scale.DetachVolume: store.DetachVolume, scale.DeleteVolume: store.DeleteVolume,
}

// volumeLists lists the volumes of a group, again and again.
func (c *cloud) volumeLists() {
	for c.f.life.Err() == nil {
		found, err := call(c.f.life, c, c.f.o.CallTimeout, c.group.Volumes)
		if c.f.life.Err() != nil {
			return
		}
		c.f.tell(func(now time.Time) {
			if err != nil {
				c.note(now, scale.InstanceRecord{Pool: c.pools[0]}, "the volumes could not be listed", err)
				return
			}
			var list []scale.SeenVolume
			for _, v := range found {
				list = append(list, scale.SeenVolume{ID: v.ID, Request: v.Request, Tenant: v.Labels[ProjectLabel], Zone: v.Zone, Instance: v.Instance})
			}
			c.f.scale.VolumesListed(now, c.f.pools[c.pools[0]].Group, c.pools[0], list)
		})
		select {
		case <-c.f.clock.After(listVolumes):
		case <-c.f.life.Done():
		}
	}
}
