package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/rungci/rung/sdk/instancegroup"
)

// disks are the volumes of a group: EBS volumes with the tag of its owner.
//
// EC2 has no conditional calls. What orders attachments is in two tags of the volume, which are set before EC2 is asked to attach or to detach: the epoch of the last
// attachment, and the fence, up to which attachments come too late. Calls about one volume follow one another in this process, and who attaches reads the tags again afterwards.
type disks struct {
	*Group
	turns instancegroup.Turns
	late  time.Duration // lateTime

	disksMu sync.Mutex
	known   map[string]*disk     // by id
	made    map[string]*ebs      // made here and not listed yet, by request
	ended   map[string]time.Time // deleted here, by id, and when
	kinds   map[string]bool      // instance types, and whether their volumes are NVMe devices
}

// disk is what this process knows of a volume beyond what EC2 lists, which may be older. It belongs to who has the turn of the volume.
type disk struct {
	seen         bool
	epoch, fence uint64
	// attaching is since when a call that attaches it may have an effect that EC2 does not show; zero: there is none.
	attaching time.Time
}

// lateTime is how long a call whose answer did not come may be on its way to EC2.
const lateTime = time.Minute

func newDisks(g *Group) *disks {
	return &disks{Group: g, late: lateTime, known: map[string]*disk{}, made: map[string]*ebs{}, ended: map[string]time.Time{}, kinds: map[string]bool{}}
}

// NoVolumes implements instancegroup.Volumeless.
func (g *Group) NoVolumes() error {
	switch {
	case g.settings.OS == windows:
		return &instancegroup.Error{Kind: instancegroup.ErrUnsupported, Message: "Windows machines have no volumes: these are mounted on Linux alone"}
	case g.disks != nil && g.settings.Owner == "":
		return &instancegroup.Error{Kind: instancegroup.ErrUnsupported, Message: "the group has no owner, by whose name its volumes would be found"}
	}
	return nil
}

// Volumes implements instancegroup.Volumer, as what follows does.
func (g *Group) Volumes(ctx context.Context) ([]instancegroup.Volume, error) {
	return g.disks.list(ctx)
}

// CreateVolume implements instancegroup.Volumer.
func (g *Group) CreateVolume(ctx context.Context, r instancegroup.VolumeRequest) (instancegroup.Volume, error) {
	return g.disks.create(ctx, r)
}

// AttachVolume implements instancegroup.Volumer.
func (g *Group) AttachVolume(ctx context.Context, a instancegroup.Attachment) (device string, err error) {
	err = g.disks.with(ctx, a.Volume, func(d *disk) error {
		device, err = g.disks.attach(ctx, d, a)
		return err
	})
	return device, err
}

// DetachVolume implements instancegroup.Volumer.
func (g *Group) DetachVolume(ctx context.Context, a instancegroup.Attachment) error {
	return g.disks.with(ctx, a.Volume, func(d *disk) error { return g.disks.detach(ctx, d, a) })
}

// DeleteVolume implements instancegroup.Volumer.
func (g *Group) DeleteVolume(ctx context.Context, id string) error {
	return g.disks.with(ctx, id, func(d *disk) error { return g.disks.delete(ctx, d, id) })
}

// volumeID is the form of EC2's ids, which are part of the path of a device.
var volumeID = regexp.MustCompile(`^vol-[0-9a-f]+$`)

// with does something with a volume that nobody else in this process does anything with.
func (s *disks) with(ctx context.Context, id string, do func(*disk) error) error {
	give, err := s.turns.Take(ctx, id)
	if err != nil {
		return err
	}
	defer give()
	s.disksMu.Lock()
	d := s.known[id]
	if d == nil {
		d = &disk{}
		if volumeID.MatchString(id) {
			s.known[id] = d
		}
	}
	s.disksMu.Unlock()
	return do(d)
}

func errNoVolume(id string) error {
	return &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "there is no volume " + id}
}

func inUse(format string, args ...any) error {
	return &instancegroup.Error{Kind: instancegroup.ErrInUse, Message: fmt.Sprintf(format, args...)}
}

func notYet(format string, args ...any) error {
	return instancegroup.Transient(0, fmt.Errorf(format, args...))
}

// read is a volume of this owner as EC2 has it, with what this process knows better.
func (s *disks) read(ctx context.Context, d *disk, id string) (*ebs, error) {
	if !volumeID.MatchString(id) || s.hasEnded(id) {
		return nil, errNoVolume(id)
	}
	out, err := call(ctx, s.api, s.api.ec2.DescribeVolumes, &ec2.DescribeVolumesInput{VolumeIds: []string{id}})
	if err != nil && !errors.Is(err, instancegroup.ErrNotFound) {
		return nil, err
	}
	var v *ebs
	if err == nil && len(out.Volumes) == 1 {
		if v, err = volumeOf(out.Volumes[0]); err != nil {
			return nil, err
		}
	}
	switch {
	case v == nil && s.isNew(id):
		return nil, notYet("EC2 has made the volume %s and does not show it yet", id)
	case v == nil || !s.owns(v) || !v.exists():
		return nil, errNoVolume(id)
	}
	s.learn(d, v)
	return v, nil
}

// learn brings together what EC2 shows of a volume and what this process knows of it.
func (s *disks) learn(d *disk, v *ebs) {
	switch {
	case v.Instance != "":
		d.attaching = time.Time{}
	case !d.seen && v.epoch > 0 && v.epoch >= v.fence: // another process may have died in the middle of an attachment, or while it waited for the end of one
		d.attaching = time.Now()
	}
	d.seen, d.epoch, d.fence = true, max(d.epoch, v.epoch), max(d.fence, v.fence)
	v.epoch, v.fence = d.epoch, d.fence
}

// owns reports whether a volume was made for this owner. Tags that somebody copies from machines to their disks make none of those a volume.
func (s *disks) owns(v *ebs) bool {
	return v.marked && instancegroup.Owned(s.settings, v.Labels)
}

// record puts a number into a tag of a volume, before EC2 is asked for what it is about. The tag never gets less.
func (s *disks) record(ctx context.Context, v *ebs, tag string, known *uint64, number uint64) error {
	if number <= *known {
		return nil
	}
	_, err := call(ctx, s.api, s.api.ec2.CreateTags, &ec2.CreateTagsInput{Resources: []string{v.ID}, Tags: []types.Tag{{Key: aws.String(tag), Value: aws.String(fmt.Sprint(number))}}})
	if err == nil {
		*known = number
	}
	return err
}

// attach brings a volume to a machine.
func (s *disks) attach(ctx context.Context, d *disk, a instancegroup.Attachment) (device string, err error) {
	v, err := s.read(ctx, d, a.Volume)
	if err == nil {
		err = s.admit(ctx, v, a)
	}
	if err != nil {
		return "", err
	}
	to, err := s.target(ctx, v, a.Instance)
	if err != nil {
		return "", err
	}
	if err := s.record(ctx, v, epochTag, &d.epoch, a.Epoch); err != nil {
		return "", err
	}
	if v.Instance == "" {
		if err := s.ask(ctx, d, v, to); err != nil {
			return "", err
		}
		if v, err = s.read(ctx, d, a.Volume); err != nil {
			return "", err
		}
	}
	if err := s.admit(ctx, v, a); err != nil { // another process may have recorded something since
		return "", err
	}
	if v.state != types.VolumeAttachmentStateAttached {
		return "", notYet("the volume %s is not attached to %s yet (%s)", v.ID, a.Instance, v.state)
	}
	return devicePath(v.ID), nil
}

// admit returns the error of an attachment that comes too late, or whose volume is elsewhere or cannot be attached at all.
func (s *disks) admit(ctx context.Context, v *ebs, a instancegroup.Attachment) error {
	over := a.Epoch <= v.fence || a.Epoch < v.epoch
	if v.Instance != "" && v.epoch <= v.fence && (over || v.Instance != a.Instance) && s.has(ctx, v.Instance) {
		// A call brought it there that came after the volume was detached. Nobody knows that it is there.
		s.log.Warn("a volume was attached by a call that came too late, and is detached again", "volume", v.ID, "instance", v.Instance, "epoch", v.epoch)
		if err := s.release(ctx, v); err != nil {
			return err
		}
	}
	switch {
	case over:
		return inUse("the volume %s was attached or detached since (epoch %d comes after %d)", v.ID, max(v.fence, v.epoch), a.Epoch)
	case v.Instance != "" && v.Instance != a.Instance:
		return inUse("the volume %s is on %s", v.ID, v.Instance)
	case v.status == types.VolumeStateError:
		return &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf("EC2 says that the volume %s has failed: its data is lost", v.ID)}
	case v.status == types.VolumeStateCreating:
		return notYet("the volume %s is being created", v.ID)
	}
	return nil
}

// target is a machine of the group that runs and can have the volume.
func (s *disks) target(ctx context.Context, v *ebs, id string) (*types.Instance, error) {
	m, err := s.find(ctx, id, runs)
	if err == nil {
		err = notRunning(m)
	}
	if err != nil {
		return nil, err
	}
	// The list may be older, and does not have the names of devices.
	all, err := s.api.describe(ctx, &ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: aws.String("instance-id"), Values: []string{id}}}})
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "there is no machine " + id}
	}
	m = machineOf(all[0])
	if err := notRunning(m); err != nil {
		return nil, err
	}
	if m.Zone != v.Zone {
		return nil, &instancegroup.Error{Kind: instancegroup.ErrUnsupported, Message: fmt.Sprintf("the volume %s is in the zone %s, and the machine %s in %s", v.ID, v.Zone, id, m.Zone)}
	}
	return &all[0], s.checkKind(ctx, string(all[0].InstanceType))
}

func runs(m machine) bool { return m.State == instancegroup.StateRunning }

// has reports whether a machine is one of the group's.
func (s *disks) has(ctx context.Context, id string) bool {
	_, err := s.find(ctx, id, func(machine) bool { return true })
	return err == nil
}

// notRunning is the error for a machine that does not run; nil: it does.
func notRunning(m machine) error {
	switch m.State {
	case instancegroup.StateRunning:
		return nil
	case instancegroup.StateCreating:
		return notYet("the machine %s does not run yet", m.ID)
	}
	return &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf("the machine %s does not run: it is %s", m.ID, m.State)}
}

// checkKind returns an error if volumes of an instance type are not NVMe devices. Those of Xen have the name that the kernel gives them: no path on the machine is that of one volume alone.
func (s *disks) checkKind(ctx context.Context, kind string) error {
	s.disksMu.Lock()
	nvme, known := s.kinds[kind]
	s.disksMu.Unlock()
	if !known {
		out, err := call(ctx, s.api, s.api.ec2.DescribeInstanceTypes, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{types.InstanceType(kind)}})
		if err != nil {
			return err
		}
		nvme = len(out.InstanceTypes) == 1 && out.InstanceTypes[0].EbsInfo != nil && out.InstanceTypes[0].EbsInfo.NvmeSupport != types.EbsNvmeSupportUnsupported
		s.disksMu.Lock()
		s.kinds[kind] = nvme
		s.disksMu.Unlock()
	}
	if !nvme {
		return &instancegroup.Error{Kind: instancegroup.ErrUnsupported, Message: fmt.Sprintf("machines of the type %s have no NVMe devices, by which volumes are found: use a type of the Nitro system", kind)}
	}
	return nil
}

// ask asks EC2 to attach a volume that is on no machine. It returns no error where EC2 says that the volume is on one: an answer may have been lost, and the list tells.
func (s *disks) ask(ctx context.Context, d *disk, v *ebs, to *types.Instance) error {
	id := aws.ToString(to.InstanceId)
	for _, name := range freeNames(to) {
		before := d.attaching
		d.attaching = time.Now()
		_, err := call(ctx, s.api, s.api.ec2.AttachVolume, &ec2.AttachVolumeInput{VolumeId: aws.String(v.ID), InstanceId: aws.String(id), Device: aws.String(name)})
		code := codeOf(err)
		if d.attaching = time.Now(); code != "" && !errors.Is(err, errLost) {
			d.attaching = before // it had no effect
		}
		switch {
		case isNameTaken(err):
			continue
		case code == incorrectState || code == volumeInUse:
			return nil
		}
		return err
	}
	return &instancegroup.Error{Kind: instancegroup.ErrQuota, Message: fmt.Sprintf("the machine %s has no device name left for one more volume", id)}
}

// release asks EC2 to take a volume from its machine. It returns no error where EC2 says that the volume is not in the state for that: the list tells which it is in.
func (s *disks) release(ctx context.Context, v *ebs) error {
	if v.state == types.VolumeAttachmentStateDetaching {
		return nil
	}
	in := &ec2.DetachVolumeInput{VolumeId: aws.String(v.ID)}
	if v.Instance != "" {
		in.InstanceId = aws.String(v.Instance)
	}
	_, err := call(ctx, s.api, s.api.ec2.DetachVolume, in)
	switch codeOf(err) {
	case incorrectState, noAttachment:
		return nil
	}
	return err
}

// detach takes a volume from its machine.
func (s *disks) detach(ctx context.Context, d *disk, a instancegroup.Attachment) error {
	v, err := s.read(ctx, d, a.Volume)
	switch {
	case err != nil:
		return err
	case a.Epoch < v.epoch: // a later attachment, which keeps this one out as well as a fence would
		return nil
	}
	if err := s.record(ctx, v, fenceTag, &d.fence, a.Epoch); err != nil {
		return err
	}
	if v.Instance == "" && d.attaching.IsZero() {
		return nil
	}
	if err := s.release(ctx, v); err != nil {
		return err
	}
	if v, err = s.read(ctx, d, a.Volume); err != nil {
		return err
	}
	if v.Instance != "" {
		return notYet("the volume %s is on %s yet (%s)", v.ID, v.Instance, v.state)
	}
	if left := s.late - time.Since(d.attaching); !d.attaching.IsZero() && left > 0 {
		return instancegroup.Transient(left, fmt.Errorf("a call that attaches the volume %s had no answer, and may have an effect yet", v.ID))
	}
	d.attaching = time.Time{}
	return nil
}

// delete deletes a volume that is on no machine.
func (s *disks) delete(ctx context.Context, d *disk, id string) error {
	v, err := s.read(ctx, d, id)
	switch {
	case errors.Is(err, instancegroup.ErrNotFound):
		return nil
	case err != nil:
		return err
	case v.Instance != "":
		return inUse("the volume %s is on %s", id, v.Instance)
	}
	_, err = call(ctx, s.api, s.api.ec2.DeleteVolume, &ec2.DeleteVolumeInput{VolumeId: aws.String(id)})
	switch {
	case codeOf(err) == incorrectState:
		return notYet("the volume %s cannot be deleted yet: %w", id, err)
	case err != nil && !errors.Is(err, instancegroup.ErrNotFound):
		return err
	}
	s.disksMu.Lock()
	defer s.disksMu.Unlock()
	s.ended[id] = time.Now()
	return nil
}
