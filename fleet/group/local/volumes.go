package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/fleet/group/local/machine"
	"github.com/rungci/rung/fleet/group/options"
	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/sdk/instancegroup"
)

// A volume is a folder that is in one place: beside the machines, or in the folder of volumes of one of them. It is moved there and back, which the file system does as a
// whole or not at all, so that no two machines can have it.
//
//	machines.volumes/ID/volume.json     its record
//	machines.volumes/ID/data            the volume, while no machine has it
//	machines/MACHINE/volumes/ID         the volume, while that machine has it
const (
	volumesSuffix = ".volumes"
	volumeFile    = "volume.json"
	dataFolder    = "data"
)

// withVolumes is a cloud with its volumes.
type withVolumes struct {
	*cloud
	*storage
}

// storage is the volumes of a cloud.
type storage struct {
	*cloud
	moving sync.Mutex // is held by who reads or moves volumes, and taken before the cloud's
}

// NoVolumes implements instancegroup.Volumeless: folders are moved into machines that are processes, and into no others.
func (c *storage) NoVolumes() error {
	if c.options.boxed() {
		return options.At("only machines that are processes have volumes", "machines")
	}
	return nil
}

// stored is the record of a volume.
type stored struct {
	instancegroup.Volume
	// Epoch is that of the last attachment; Fence that up to which attachments come too late.
	Epoch uint64 `json:"epoch"`
	Fence uint64 `json:"fence"`
}

func (c *storage) volumePath(names ...string) string {
	return filepath.Join(append([]string{c.folder + volumesSuffix}, names...)...)
}

func (c *storage) saveVolume(v *stored) error {
	const secret = 0o600
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return wholefile.WriteSynced(c.volumePath(v.ID, volumeFile), secret, text)
}

// readVolume reads the record of a volume; nil without an error: there is none. The caller holds the turn.
func (c *storage) readVolume(id string) (*stored, error) {
	if id == "" || id != filepath.Base(id) {
		return nil, nil
	}
	text, err := os.ReadFile(c.volumePath(id, volumeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	v := &stored{}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return nil, fmt.Errorf("the record of the volume %s: %w", id, err)
	}
	return v, nil
}

// volumes are the records of all volumes of this owner. The caller holds the turn.
func (c *storage) readVolumes() (all []*stored, err error) {
	entries, err := os.ReadDir(c.volumePath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		v, wrong := c.readVolume(e.Name())
		if err = errors.Join(err, wrong); v != nil && instancegroup.Owned(c.settings, v.Labels) {
			all = append(all, v)
		}
	}
	return all, err
}

// Volumes implements instancegroup.Volumer.
func (c *storage) Volumes(ctx context.Context) (out []instancegroup.Volume, err error) {
	c.moving.Lock()
	defer c.moving.Unlock()
	all, err := c.readVolumes()
	for _, v := range all {
		out = append(out, v.Volume)
	}
	return out, errors.Join(err, context.Cause(ctx))
}

// CreateVolume implements instancegroup.Volumer. Nothing holds a volume to its size.
func (c *storage) CreateVolume(ctx context.Context, r instancegroup.VolumeRequest) (instancegroup.Volume, error) {
	c.moving.Lock()
	defer c.moving.Unlock()
	none := instancegroup.Volume{}
	if r.Zone != "" {
		return none, &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "volumes of this host are in no zone"}
	}
	all, err := c.readVolumes()
	if err = errors.Join(err, context.Cause(ctx)); err != nil {
		return none, err
	}
	for _, v := range all {
		if v.Request == r.ID {
			return v.Volume, nil
		}
	}
	v := &stored{Volume: instancegroup.Volume{ID: "volume-" + strings.ToLower(rand.Text()[:16]), Request: r.ID, Size: r.Size, Labels: r.Labels, Created: time.Now().UTC()}}
	err = errors.Join(os.MkdirAll(c.volumePath(v.ID), private), os.MkdirAll(c.volumePath(v.ID, dataFolder), private))
	if err == nil {
		err = c.saveVolume(v)
	}
	if err != nil {
		return none, errors.Join(err, os.RemoveAll(c.volumePath(v.ID)))
	}
	return v.Volume, nil
}

// errUnknownVolume is about a volume that does not exist.
func errUnknownVolume(id string) error {
	return &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "there is no volume " + id}
}

func inUse(format string, args ...any) error {
	return &instancegroup.Error{Kind: instancegroup.ErrInUse, Message: fmt.Sprintf(format, args...)}
}

// AttachVolume implements instancegroup.Volumer.
func (c *storage) AttachVolume(ctx context.Context, a instancegroup.Attachment) (string, error) {
	c.moving.Lock()
	defer c.moving.Unlock()
	v, err := c.readVolume(a.Volume)
	if err = errors.Join(err, context.Cause(ctx)); err != nil {
		return "", err
	}
	c.mu.Lock()
	r := c.machines[a.Instance]
	running := r != nil && !r.Leaving && !r.Suspended
	user := 0
	if running {
		state, _, _ := c.state(r)
		running, user = state == instancegroup.StateRunning, r.UID
	}
	c.mu.Unlock()
	switch {
	case v == nil:
		return "", errUnknownVolume(a.Volume)
	case a.Epoch <= v.Fence || a.Epoch < v.Epoch:
		return "", inUse("the volume %s was attached or detached since (epoch %d comes after %d)", v.ID, max(v.Fence, v.Epoch), a.Epoch)
	case v.Instance != "" && v.Instance != a.Instance:
		return "", inUse("the volume %s is on %s", v.ID, v.Instance)
	case !running:
		return "", &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "there is no machine " + a.Instance + " that runs"}
	}
	v.Instance, v.Epoch = a.Instance, a.Epoch
	if err := c.saveVolume(v); err != nil {
		return "", err
	}
	from, to := c.volumePath(v.ID, dataFolder), c.path(a.Instance, machine.Volumes, v.ID)
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) { // a call before this one has moved it
		return machine.VolumesAt + "/" + v.ID, nil
	}
	if err := errors.Join(owned(ctx, from, user), removeAll(to)); err != nil {
		return "", err
	}
	return machine.VolumesAt + "/" + v.ID, os.Rename(from, to)
}

// owned gives all of a folder to the user of a machine. Nobody else has it.
func owned(ctx context.Context, folder string, user int) error {
	if os.Geteuid() != 0 {
		return nil // all machines have one user
	}
	return filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		return os.Lchown(path, user, user)
	})
}

// DetachVolume implements instancegroup.Volumer. A volume that a process of the machine uses stays there.
func (c *storage) DetachVolume(ctx context.Context, a instancegroup.Attachment) error {
	c.moving.Lock()
	defer c.moving.Unlock()
	v, err := c.readVolume(a.Volume)
	switch {
	case err != nil || ctx.Err() != nil:
		return errors.Join(err, context.Cause(ctx))
	case v == nil:
		return errUnknownVolume(a.Volume)
	case v.Instance != "" && a.Epoch < v.Epoch: // that attachment has ended
		return nil
	}
	if v.Instance != "" {
		if process := usedBy(v.ID); process != "" {
			return instancegroup.Transient(time.Second, fmt.Errorf("process %s of %s uses the volume %s", process, v.Instance, v.ID))
		}
	}
	return c.takeBack(v, a.Epoch)
}

// takeBack moves a volume from its machine to where no machine has it. The caller holds the turn.
func (c *storage) takeBack(v *stored, epoch uint64) error {
	home := c.volumePath(v.ID, dataFolder)
	if v.Instance != "" {
		from := c.path(v.Instance, machine.Volumes, v.ID)
		if _, err := os.Lstat(home); errors.Is(err, fs.ErrNotExist) {
			if err := os.Rename(from, home); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	if info, err := os.Lstat(home); err != nil || !info.IsDir() { // its jobs have put something in its place
		c.log.Warn("a volume is not where it was, and begins empty", "volume", v.ID, "machine", v.Instance)
		if err := errors.Join(os.RemoveAll(home), os.Mkdir(home, private)); err != nil {
			return err
		}
	}
	v.Instance, v.Fence = "", max(v.Fence, epoch)
	return c.saveVolume(v)
}

// takeAllBack moves the volumes of a machine whose processes have ended from there.
func (c *storage) takeAllBack(instance string) error {
	c.moving.Lock()
	defer c.moving.Unlock()
	all, err := c.readVolumes()
	for _, v := range all {
		if v.Instance == instance {
			err = errors.Join(err, c.takeBack(v, v.Epoch))
		}
	}
	return err
}

// DeleteVolume implements instancegroup.Volumer.
func (c *storage) DeleteVolume(ctx context.Context, id string) error {
	c.moving.Lock()
	defer c.moving.Unlock()
	v, err := c.readVolume(id)
	switch {
	case err != nil || ctx.Err() != nil:
		return errors.Join(err, context.Cause(ctx))
	case v == nil:
		return nil
	case v.Instance != "":
		return inUse("the volume %s is on %s", v.ID, v.Instance)
	}
	return errors.Join(removeAll(c.volumePath(id, dataFolder)), os.RemoveAll(c.volumePath(id)))
}

// usedBy is the number of a process that has a file of a volume open, or works or runs there; empty: there is none. The name of a volume is in all paths to it.
func usedBy(volume string) string {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range all {
		links := []string{filepath.Join(process, "cwd"), filepath.Join(process, "root"), filepath.Join(process, "exe")}
		files, _ := os.ReadDir(filepath.Join(process, "fd"))
		for _, f := range files {
			links = append(links, filepath.Join(process, "fd", f.Name()))
		}
		if slices.ContainsFunc(links, func(link string) bool {
			to, err := os.Readlink(link)
			return err == nil && slices.Contains(strings.Split(to, "/"), volume)
		}) {
			return cmp.Or(filepath.Base(process), "?")
		}
	}
	return ""
}
