package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/api/compute/v1"

	groupoptions "github.com/rungci/rung/fleet/group/options"
	"github.com/rungci/rung/sdk/instancegroup"
)

// instanceName is what the name of an instance can be.
var instanceName = regexp.MustCompile(`^[a-z][-a-z0-9]{0,62}$`)

// devices is the folder in which a machine has its disks by their device names.
const devices = "/dev/disk/by-id/google-"

// NoVolumes implements instancegroup.Volumeless.
func (c *cloud) NoVolumes() error {
	if c.Region != "" {
		return groupoptions.At("a regional group chooses the zones of its machines by itself, and a volume is of use in one zone: only the group of a zone, and single instances, have volumes", "region")
	}
	return nil
}

// Volumes implements instancegroup.Volumer. Lists lag: what this process was at a short while ago is read by itself.
func (c *cloud) Volumes(ctx context.Context) ([]instancegroup.Volume, error) {
	all, err := c.disks(ctx, c.volumePrefix+".*")
	if err != nil {
		return nil, err
	}
	found := map[string]*disk{}
	for _, d := range all {
		found[d.id()] = d
	}
	for _, id := range c.touched.all() {
		d, err := c.disk(ctx, id)
		switch {
		case err == nil:
			found[id] = d
		case errors.Is(err, instancegroup.ErrNotFound):
			delete(found, id)
		default:
			return nil, err
		}
	}
	var out []instancegroup.Volume
	for _, id := range slices.Sorted(maps.Keys(found)) {
		v := found[id].volume()
		if v.Instance == "" {
			if v.Instance, err = c.mayHave(ctx, found[id]); err != nil {
				return nil, err
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// mayHave is the machine to which a disk may be on its way; empty: none.
func (c *cloud) mayHave(ctx context.Context, d *disk) (string, error) {
	m, err := d.readMark()
	if err != nil || !m.open() {
		return "", nil //nolint:nilerr // who attaches or detaches it is told
	}
	_, err = c.instance(ctx, d.zone, m.machine)
	if errors.Is(err, instancegroup.ErrNotFound) {
		return "", nil
	}
	return m.machine, err
}

// instance reads an instance.
func (c *cloud) instance(ctx context.Context, zone, name string) (*compute.Instance, error) {
	return do(ctx, c, "the instance "+name, func(ctx context.Context) (*compute.Instance, error) {
		return c.api.Instances.Get(c.Project, zone, name).Context(ctx).Do()
	})
}

// CreateVolume implements instancegroup.Volumer.
func (c *cloud) CreateVolume(ctx context.Context, r instancegroup.VolumeRequest) (none instancegroup.Volume, err error) {
	hash := sha256.Sum256([]byte(c.settings.Owner + "/" + r.ID))
	name := c.volumePrefix + hex.EncodeToString(hash[:10])
	zone := cmp.Or(r.Zone, c.zones[0])
	done, err := c.turns.Take(ctx, name)
	if err != nil {
		return none, err
	}
	defer done()
	d, err := c.made(ctx, zone, name)
	if err == nil && d == nil {
		if err = c.insertDisk(ctx, zone, name, r); err != nil && !errors.Is(err, errExists) {
			return none, err
		}
		if d, err = c.made(ctx, zone, name); err == nil && d == nil {
			err = instancegroup.Transient(retryTime, fmt.Errorf("the disk %s was made, and cannot be read yet", name))
		}
	}
	if err != nil {
		return none, err
	}
	c.touched.add(d.id())
	switch d.Status {
	case "READY":
		return d.volume(), nil
	case "FAILED":
		return none, &instancegroup.Error{Kind: instancegroup.ErrUnsupported, Message: fmt.Sprintf("Google could not make the disk %s of %s, and says no more: delete it", name, d.zone)}
	}
	return none, instancegroup.Transient(retryTime, fmt.Errorf("the disk %s is %s", name, strings.ToLower(d.Status)))
}

// made is the disk of a request; nil: there is none. It is in the zone that the options say now, or, if they have changed since, in another one.
func (c *cloud) made(ctx context.Context, zone, name string) (*disk, error) {
	if slices.Contains(c.zones, zone) {
		d, err := c.diskIn(ctx, zone, name)
		if err == nil && d == nil {
			return nil, fmt.Errorf("the disk %s of %s is in the way, as it has the name of a volume and is none: delete it", name, zone)
		}
		if !errors.Is(err, instancegroup.ErrNotFound) {
			return d, err
		}
	}
	all, err := c.disks(ctx, name)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// insertDisk makes an empty disk.
func (c *cloud) insertDisk(ctx context.Context, zone, name string, r instancegroup.VolumeRequest) error {
	if !slices.Contains(c.zones, zone) {
		return &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "no machine that could have the volume is made in the zone " + zone}
	}
	size, err := c.diskSize(ctx, zone, r.Size)
	if err != nil {
		return err
	}
	text, err := json.Marshal(note{r.ID, r.Labels})
	if err != nil {
		return err
	}
	if len(text) > maxNote {
		return &instancegroup.Error{Kind: instancegroup.ErrUnsupported, Message: fmt.Sprintf(
			"the labels of a volume are kept in the description of its disk, where %d bytes fit, and have %d: use fewer or shorter labels", maxNote, len(text))}
	}
	own := map[string]string{}
	mark{}.put(own)
	body := &compute.Disk{
		Name: name, Description: string(text), SizeGb: size, Type: "projects/" + c.Project + "/zones/" + zone + "/diskTypes/" + c.VolumeType, Labels: cloudLabels(own, r.Labels),
	}
	maps.Copy(body.Labels, own)
	if c.VolumeKMSKey != "" {
		body.DiskEncryptionKey = &compute.CustomerEncryptionKey{KmsKeyName: c.VolumeKMSKey}
	}
	return final(ctx, c.ask(ctx, "disk/"+zone+"/"+name, "making the disk "+name, func(ctx context.Context, id string) (*compute.Operation, error) {
		return c.api.Disks.Insert(c.Project, zone, body).RequestId(id).Context(ctx).Do()
	}))
}

// diskSize is the size of a disk for so many bytes, in GiB.
func (c *cloud) diskSize(ctx context.Context, zone string, bytes int64) (int64, error) {
	least, most, err := c.sizes(ctx, zone)
	size := max((bytes-1)/gibibyte+1, least)
	if err == nil && size > most {
		err = &instancegroup.Error{Kind: instancegroup.ErrUnsupported, Message: fmt.Sprintf("disks of the type %s have %d GiB at most, and %d GiB were asked for", c.VolumeType, most, size)}
	}
	return size, err
}

// sizes are the sizes that disks of the type can have in a zone, in GiB.
func (c *cloud) sizes(ctx context.Context, zone string) (least, most int64, err error) {
	valid, known := c.diskSizes.get(zone)
	if !known {
		t, err := do(ctx, c, fmt.Sprintf("the disk type %q of %s", c.VolumeType, zone), func(ctx context.Context) (*compute.DiskType, error) {
			return c.api.DiskTypes.Get(c.Project, zone, c.VolumeType).Context(ctx).Do()
		})
		if err != nil {
			return 0, 0, err
		}
		valid = t.ValidDiskSize
		c.diskSizes.put(zone, valid)
	}
	from, to, _ := strings.Cut(valid, "-")
	least, known = gigabytes(from)
	if most, two := gigabytes(to); known && two {
		return least, most, nil
	}
	return smallestDisk, math.MaxInt64, nil // the API decides
}

// smallestDisk is the least size of persistent disks, in GiB, where the API does not say.
const smallestDisk = 10

// checkVolumeType checks a type of volumes that the options name, in all zones. Without one, no volumes may be wanted, and nothing is asked.
func (c *cloud) checkVolumeType(ctx context.Context) error {
	if c.VolumeType == "" {
		c.VolumeType = defaultVolumeType
		return nil
	}
	for _, zone := range c.zones {
		if _, _, err := c.sizes(ctx, zone); err != nil {
			return fmt.Errorf(`the option "volume_type": %w`, err)
		}
	}
	return nil
}

// gigabytes reads a size such as 10GB or 64TB.
func gigabytes(text string) (size int64, ok bool) {
	const terabyte = 1024
	for unit, factor := range map[string]int64{"GB": 1, "TB": terabyte} {
		if number, has := strings.CutSuffix(text, unit); has {
			n, err := strconv.ParseInt(number, 10, 32)
			return n * factor, err == nil
		}
	}
	return 0, false
}

// final is an error of a call that the API has refused for a reason that it will have again: the job does not wait for its volume then.
func final(ctx context.Context, err error) error {
	var known *instancegroup.Error
	if err == nil || ctx.Err() != nil || errors.As(err, &known) {
		return err
	}
	return &instancegroup.Error{Kind: instancegroup.ErrUnsupported, Message: err.Error(), Err: err}
}

func inUse(format string, args ...any) error {
	return &instancegroup.Error{Kind: instancegroup.ErrInUse, Message: fmt.Sprintf(format, args...)}
}

// late is the error of an attachment that comes too late; nil: it does not.
func (d *disk) late(m mark, a instancegroup.Attachment) error {
	switch {
	case a.Epoch <= m.fence || a.Epoch < m.epoch:
		return inUse("the volume %s was attached or detached since: epoch %d comes after %d", d.id(), max(m.fence, m.epoch), a.Epoch)
	case a.Epoch == m.epoch && a.Instance != m.machine:
		return inUse("the volume %s was attached to %s with epoch %d, which is not another machine's, too", d.id(), m.machine, m.epoch)
	}
	return nil
}

// AttachVolume implements instancegroup.Volumer. The mark is set before the disk is attached, and read again after that: who has set a fence in between may not have seen
// that the disk was on its way.
func (c *cloud) AttachVolume(ctx context.Context, a instancegroup.Attachment) (at string, err error) {
	done, err := c.turns.Take(ctx, a.Volume)
	if err != nil {
		return "", err
	}
	defer done()
	d, err := c.disk(ctx, a.Volume)
	if err == nil {
		err = c.free(ctx, d, a)
	}
	if err == nil {
		err = c.runs(ctx, d, a.Instance)
	}
	if err != nil {
		return "", err
	}
	c.touched.add(a.Volume)
	d, err = c.setMark(ctx, d, func(m mark) (mark, error) {
		if err := d.late(m, a); err != nil {
			return m, err
		}
		return mark{epoch: a.Epoch, fence: m.fence, machine: a.Instance}, nil
	})
	if err != nil {
		return "", err
	}
	var refused error
	if d.holder() == "" {
		refused = c.attach(ctx, d, a)
	}
	if d, err = c.disk(ctx, a.Volume); err != nil {
		return "", err
	}
	return c.attached(ctx, d, a, refused)
}

// free is why a machine cannot have a disk. Another one that has it without a right to is made to let it go.
func (c *cloud) free(ctx context.Context, d *disk, a instancegroup.Attachment) error {
	m, err := d.readMark()
	if err == nil {
		err = d.late(m, a)
	}
	if holder := d.holder(); err == nil && holder != "" && holder != a.Instance {
		if err = c.endLeft(ctx, d, m); err == nil {
			err = inUse("the volume %s is on %s", d.id(), holder)
		}
	}
	return err
}

// runs is why a machine of this owner does not run in the zone of a disk.
func (c *cloud) runs(ctx context.Context, d *disk, name string) error {
	none := &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf("there is no machine %s that runs in the zone %s, in which the volume is", name, d.zone)}
	if !instanceName.MatchString(name) {
		return none
	}
	i, err := c.instance(ctx, d.zone, name)
	switch {
	case errors.Is(err, instancegroup.ErrNotFound):
		return none
	case err != nil:
		return err
	case labelsOf(itemsOf(i.Metadata))[instancegroup.OwnerLabel] != c.settings.Owner || i.Status != "RUNNING" || c.isEnding(name):
		return none
	}
	return nil
}

// attach asks for a disk to be on a machine. The call is made to its end, whatever becomes of the caller's: one that nobody waits for any more could come late.
func (c *cloud) attach(ctx context.Context, d *disk, a instancegroup.Attachment) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateTime)
	defer cancel()
	body := &compute.AttachedDisk{
		Source: "projects/" + c.Project + "/zones/" + d.zone + "/disks/" + d.Name, DeviceName: d.deviceName(a.Epoch), Mode: "READ_WRITE",
		AutoDelete: false, ForceSendFields: []string{"AutoDelete"},
	}
	key := fmt.Sprintf("attach/%s/%d/%s", d.id(), a.Epoch, a.Instance)
	return final(ctx, c.ask(ctx, key, "attaching the disk "+d.Name, func(ctx context.Context, id string) (*compute.Operation, error) {
		return c.api.Instances.AttachDisk(c.Project, d.zone, a.Instance, body).RequestId(id).Context(ctx).Do()
	}))
}

// attached is where a machine has a disk; refused is what was said when it was asked for.
func (c *cloud) attached(ctx context.Context, d *disk, a instancegroup.Attachment, refused error) (string, error) {
	m, err := d.readMark()
	if err == nil {
		err = d.late(m, a)
	}
	switch {
	case errors.Is(err, instancegroup.ErrInUse): // by another process, just now
		return "", errors.Join(err, c.endLeft(ctx, d, m))
	case err != nil:
		return "", err
	case d.holder() == "" && refused != nil:
		return "", refused
	case d.holder() == "":
		return "", instancegroup.Transient(retryTime, fmt.Errorf("the volume %s is not on %s yet", d.id(), a.Instance))
	case d.holder() != a.Instance:
		return "", inUse("the volume %s is on %s", d.id(), d.holder())
	}
	device, err := c.deviceOn(ctx, d, a.Instance)
	if err != nil {
		return "", err
	}
	if epoch, ours := d.epochOf(device); ours && epoch > m.fence {
		return devices + device, nil
	}
	if err = c.endLeft(ctx, d, m); err == nil {
		err = inUse("the disk %s is on %s as %q, which the runner has not done: detach it there", d.Name, a.Instance, device)
	}
	return "", err
}

// deviceOn is the device name of a disk on a machine that has it.
func (c *cloud) deviceOn(ctx context.Context, d *disk, machine string) (string, error) {
	i, err := c.instance(ctx, d.zone, machine)
	if err == nil {
		for _, one := range i.Disks {
			if strings.HasSuffix(one.Source, "/zones/"+d.zone+"/disks/"+d.Name) {
				return one.DeviceName, nil
			}
		}
	}
	if err == nil || errors.Is(err, instancegroup.ErrNotFound) {
		err = instancegroup.Transient(retryTime, fmt.Errorf("the disk %s says that it is on the instance %s, which does not have it", d.Name, machine))
	}
	return "", err
}

// endLeft takes a disk from its machine if it is there by an attachment that was ended: one of a process that has died, and that came after its end. The error is
// ErrTransient then. It is nil if the disk may be where it is, or is nowhere.
func (c *cloud) endLeft(ctx context.Context, d *disk, m mark) error {
	holder := d.holder()
	if holder == "" {
		return nil
	}
	device, err := c.deviceOn(ctx, d, holder)
	if err != nil {
		return err
	}
	if epoch, ours := d.epochOf(device); !ours || epoch > m.fence && holder == m.machine {
		return nil
	}
	if err := c.detach(ctx, d, holder, device); err != nil {
		return err
	}
	return instancegroup.Transient(retryTime, fmt.Errorf("the volume %s was on %s yet, though it had been detached", d.id(), holder))
}

// DetachVolume implements instancegroup.Volumer. The fence is set first, and only then it is looked where the disk is.
func (c *cloud) DetachVolume(ctx context.Context, a instancegroup.Attachment) error {
	done, err := c.turns.Take(ctx, a.Volume)
	if err != nil {
		return err
	}
	defer done()
	d, err := c.disk(ctx, a.Volume)
	if err != nil {
		return err
	}
	c.touched.add(a.Volume)
	d, err = c.setMark(ctx, d, func(m mark) (mark, error) {
		if a.Epoch >= m.epoch {
			m.fence = max(m.fence, a.Epoch)
		}
		return m, nil
	})
	if err != nil {
		return err
	}
	m, err := d.readMark()
	switch {
	case err != nil:
		return err
	case m.epoch > a.Epoch: // it was attached since, and what comes of an earlier attachment is too late
		return nil
	case d.holder() == "":
		if err := c.nothingOnItsWay(ctx, d, m.machine); err != nil {
			return err
		}
		if d, err = c.disk(ctx, a.Volume); err != nil || d.holder() == "" { // what was on its way may have come since
			return err
		}
	}
	device, err := c.deviceOn(ctx, d, d.holder())
	if err != nil {
		return err
	}
	if _, ours := d.epochOf(device); !ours {
		return inUse("the disk %s is on %s as %q, which the runner has not done: detach it there", d.Name, d.holder(), device)
	}
	return c.detach(ctx, d, d.holder(), device)
}

// nothingOnItsWay is ErrTransient while a machine is being given a disk, which may be any.
func (c *cloud) nothingOnItsWay(ctx context.Context, d *disk, machine string) error {
	if machine == "" {
		return nil
	}
	i, err := c.instance(ctx, d.zone, machine)
	if errors.Is(err, instancegroup.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return pages(func(token string) (string, error) {
		list, err := do(ctx, c, "the operations of "+machine, func(ctx context.Context) (*compute.OperationList, error) {
			return c.api.ZoneOperations.List(c.Project, d.zone).Filter(fmt.Sprintf("targetId = %d", i.Id)).PageToken(token).Context(ctx).Do()
		})
		if err != nil {
			return "", err
		}
		for _, op := range list.Items {
			if op.OperationType == "attachDisk" && op.Status != "DONE" {
				return "", instancegroup.Transient(retryTime, fmt.Errorf("a disk is being attached to %s, which may be the volume %s", machine, d.id()))
			}
		}
		return list.NextPageToken, nil
	})
}

// detach takes a disk from a machine, which may have let it go before. The error is ErrTransient if it is there yet.
func (c *cloud) detach(ctx context.Context, d *disk, machine, device string) error {
	what := "detaching the disk " + d.Name
	op, refused := do(ctx, c, what, func(ctx context.Context) (*compute.Operation, error) {
		return c.api.Instances.DetachDisk(c.Project, d.zone, machine, device).Context(ctx).Do()
	})
	if refused == nil {
		_, refused = c.finish(ctx, what, op)
	}
	now, err := c.disk(ctx, d.id())
	switch {
	case err != nil:
		return err
	case now.holder() == "":
		return nil
	case refused != nil && !errors.Is(refused, instancegroup.ErrNotFound): // of the machine
		return refused
	}
	return instancegroup.Transient(retryTime, fmt.Errorf("the volume %s is on %s yet", d.id(), machine))
}

// DeleteVolume implements instancegroup.Volumer.
func (c *cloud) DeleteVolume(ctx context.Context, id string) error {
	done, err := c.turns.Take(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	d, err := c.disk(ctx, id)
	if errors.Is(err, instancegroup.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	c.touched.add(id)
	switch {
	case d.holder() != "":
		m, err := d.readMark()
		if err == nil {
			err = c.endLeft(ctx, d, m)
		}
		if err != nil {
			return err
		}
		return inUse("the volume %s is on %s", id, d.holder())
	case d.Status == "DELETING":
		return instancegroup.Transient(retryTime, fmt.Errorf("the volume %s is being deleted", id))
	}
	return c.deleteDisk(ctx, d)
}

// deleteDisk deletes a disk, which may be gone then.
func (c *cloud) deleteDisk(ctx context.Context, d *disk) error {
	what := "deleting the disk " + d.Name
	op, refused := do(ctx, c, what, func(ctx context.Context) (*compute.Operation, error) {
		return c.api.Disks.Delete(c.Project, d.zone, d.Name).Context(ctx).Do()
	})
	if refused == nil {
		_, refused = c.finish(ctx, what, op)
	}
	_, err := c.disk(ctx, d.id())
	switch {
	case errors.Is(err, instancegroup.ErrNotFound):
		return nil
	case err != nil:
		return err
	case refused != nil:
		return refused
	}
	return instancegroup.Transient(retryTime, fmt.Errorf("the volume %s is there yet", d.id()))
}
