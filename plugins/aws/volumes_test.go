package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/rungci/rung/fleet/group"
)

// volumeRequest asks for a volume in the zone of most tests.
func volumeRequest(n int) group.VolumeRequest {
	return group.VolumeRequest{ID: fmt.Sprint("volume-", n), Size: gib, Zone: "eu-west-1a", Labels: map[string]string{"rung-project": "a-project"}}
}

// volume makes a volume.
func (g opened) volume(t testing.TB, n int) group.Volume {
	t.Helper()
	v, err := g.CreateVolume(t.Context(), volumeRequest(n))
	if err != nil {
		t.Fatal("CreateVolume:", err)
	}
	return v
}

// attach brings a volume to a machine.
func (g opened) attach(t testing.TB, volume, machine string, epoch uint64) (device string) {
	t.Helper()
	device, err := g.AttachVolume(t.Context(), group.Attachment{Volume: volume, Instance: machine, Epoch: epoch})
	if err != nil {
		t.Fatal("AttachVolume:", err)
	}
	return device
}

// tries makes a call that fails, and returns its error.
func (g opened) tries(t testing.TB, volume, machine string, epoch uint64) error {
	t.Helper()
	device, err := g.AttachVolume(t.Context(), group.Attachment{Volume: volume, Instance: machine, Epoch: epoch})
	if err == nil {
		t.Errorf("it is attached at %s", device)
	}
	return err
}

func (g opened) detach(t testing.TB, volume, machine string, epoch uint64) {
	t.Helper()
	if err := g.DetachVolume(t.Context(), group.Attachment{Volume: volume, Instance: machine, Epoch: epoch}); err != nil {
		t.Fatal("DetachVolume:", err)
	}
}

// volumes are those of a list, by id.
func (g opened) volumes(t testing.TB) map[string]group.Volume {
	t.Helper()
	all, err := g.Volumes(t.Context())
	if err != nil {
		t.Fatal("Volumes:", err)
	}
	out := map[string]group.Volume{}
	for _, v := range all {
		out[v.ID] = v
	}
	return out
}

// owned are the volumes of the account that this plugin has made, as EC2 has them.
func (c *cloud) owned(t testing.TB) (all []types.Volume) {
	t.Helper()
	out, err := c.api.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{Filters: []types.Filter{{Name: aws.String("tag-key"), Values: []string{epochTag}}}})
	if err != nil {
		t.Fatal(err)
	}
	return out.Volumes
}

// on is the machine that has a volume, and the tags of the volume, as EC2 has them.
func (c *cloud) on(t testing.TB, id string) (machine string, tags map[string]string) {
	t.Helper()
	v := c.motoVolume(id)
	if v == nil {
		t.Fatal("there is no volume", id)
	}
	for _, a := range v.Attachments {
		machine = aws.ToString(a.InstanceId)
		if aws.ToBool(a.DeleteOnTermination) {
			t.Errorf("the volume %s is deleted with its machine", id)
		}
	}
	return machine, labelsOf(v.Tags)
}

// tag sets a tag of a volume, as another process would.
func (c *cloud) tag(t testing.TB, id, key, value string) {
	t.Helper()
	if _, err := c.api.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: aws.String(key), Value: aws.String(value)}}}); err != nil {
		t.Error(err)
	}
}

// withMachines is a group of one zone with so many machines.
func withMachines(t *testing.T, n int) (*cloud, opened, []string) {
	t.Helper()
	c := newCloud(t, motoURL(t))
	g := open(t, c.inOneZone(t))
	return c, g, g.create(t, request(1, n))
}

func TestAQuotaForVolumesIsAQuota(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 1)
	c.fault("CreateVolume", 1, refuse(400, "VolumeLimitExceeded"))
	_, err := g.CreateVolume(t.Context(), volumeRequest(1))
	wants(t, "CreateVolume", err, group.ErrQuota)
	// A try before had no answer: the refusal does not say that there is no volume.
	c.fault("CreateVolume", 1, lose)
	c.fault("CreateVolume", 1, refuse(400, "VolumeLimitExceeded"))
	_, err = g.CreateVolume(t.Context(), volumeRequest(1))
	wants(t, "CreateVolume after a lost answer", err, group.ErrUncertain)
	v := g.volume(t, 1)
	c.fault("AttachVolume", 1, refuse(400, "AttachmentLimitExceeded"))
	wants(t, "AttachVolume", g.tries(t, v.ID, ids[0], 1), group.ErrQuota)
	g.attach(t, v.ID, ids[0], 1)
}

func TestWrongOptionsOfVolumesAreNotTriedAgain(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.inOneZone(t))
	for _, code := range wrongOptions {
		c.fault("CreateVolume", 1, refuse(400, code))
		_, err := g.CreateVolume(t.Context(), volumeRequest(1))
		wants(t, "CreateVolume with "+code, err, group.ErrUnsupported)
	}
	c.fault("CreateVolume", 1, lose)
	c.fault("CreateVolume", 1, refuse(400, wrongOptions[0]))
	_, err := g.CreateVolume(t.Context(), volumeRequest(1))
	wants(t, "CreateVolume after a lost answer", err, group.ErrUncertain)
	g.volume(t, 1)
}

func TestCallsAboutVolumesThatAreThrottledAreMadeAgain(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 1)
	for _, operation := range []string{"CreateVolume", "CreateTags", "AttachVolume", "DetachVolume", "DeleteVolume", "DescribeVolumes"} {
		c.fault(operation, 2, refuse(503, "RequestLimitExceeded"))
	}
	v := g.volume(t, 1)
	g.attach(t, v.ID, ids[0], 1)
	g.detach(t, v.ID, ids[0], 1)
	if err := g.DeleteVolume(t.Context(), v.ID); err != nil || len(c.owned(t)) != 0 {
		t.Errorf("%v; there are %d volumes", err, len(c.owned(t)))
	}
}

func TestTheDeviceOfAVolumeIsThatOfNoOther(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 1)
	var wait sync.WaitGroup
	for n := range 4 {
		v := g.volume(t, n)
		wait.Go(func() {
			device, err := g.AttachVolume(t.Context(), group.Attachment{Volume: v.ID, Instance: ids[0], Epoch: 1})
			if want := "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_" + strings.ReplaceAll(v.ID, "-", ""); err != nil || device != want {
				t.Errorf("%s, %v; want %s", device, err, want)
			}
		})
	}
	wait.Wait()
	names := map[string]bool{}
	for _, v := range c.owned(t) {
		for _, a := range v.Attachments {
			names[aws.ToString(a.Device)] = true
		}
	}
	if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got, []string{"/dev/sdf", "/dev/sdg", "/dev/sdh", "/dev/sdi"}) {
		t.Errorf("the names are %v", got)
	}
	full := &types.Instance{}
	for _, letter := range deviceLetters {
		full.BlockDeviceMappings = append(full.BlockDeviceMappings, types.InstanceBlockDeviceMapping{DeviceName: aws.String("/dev/xvd" + string(letter))})
	}
	if free := freeNames(full); len(free) != 0 {
		t.Errorf("free: %v", free)
	}
}

func TestAVolumeThatIsBeingAttachedIsReturnedLater(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 1)
	v := g.volume(t, 1)
	c.fault("AttachVolume", 1, func(c *cloud, call apiCall, forward func() answer) (answer, bool) {
		if _, tags := c.on(t, v.ID); tags[epochTag] != "3" {
			t.Errorf("EC2 is asked to attach it before the epoch is recorded: %v", tags)
		}
		c.fault("DescribeVolumes", 3, inState("attached", "attaching"))
		return forward(), true
	})
	for range 3 {
		wants(t, "AttachVolume", g.tries(t, v.ID, ids[0], 3), group.ErrTransient)
	}
	g.attach(t, v.ID, ids[0], 3)
	if got := g.volumes(t)[v.ID]; got.Instance != ids[0] || c.count("AttachVolume") != 1 {
		t.Errorf("it is on %q after %d calls", got.Instance, c.count("AttachVolume"))
	}
}

func TestALostAnswerAttachesOnce(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(*cloud, apiCall, func() answer) (answer, bool){"before the effect": drop, "after the effect": lose} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, g, ids := withMachines(t, 2)
			v := g.volume(t, 1)
			c.fault("AttachVolume", 1, how)
			g.attach(t, v.ID, ids[0], 1)
			wants(t, "another machine", g.tries(t, v.ID, ids[1], 2), group.ErrInUse)
			if on, _ := c.on(t, v.ID); on != ids[0] {
				t.Errorf("it is on %q", on)
			}
		})
	}
}

func TestAnAnswerThatEC2AttachedItElsewhereIsInUse(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 2)
	v := g.volume(t, 1)
	c.fault("AttachVolume", 1, func(c *cloud, call apiCall, forward func() answer) (answer, bool) {
		c.byHand(t, v.ID, ids[1])
		return forward(), true
	})
	c.tag(t, v.ID, epochTag, "1")
	wants(t, "AttachVolume", g.tries(t, v.ID, ids[0], 2), group.ErrInUse)
}

// byHand attaches a volume as somebody else would.
func (c *cloud) byHand(t testing.TB, volume, machine string) {
	t.Helper()
	if _, err := c.api.ec2.AttachVolume(t.Context(), &ec2.AttachVolumeInput{VolumeId: aws.String(volume), InstanceId: aws.String(machine), Device: aws.String("/dev/sdp")}); err != nil {
		t.Error(err)
	}
}

func TestAMachineInAnotherZoneGetsNoVolume(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	id := g.create(t, group.Request{ID: "b", Count: 1, Zone: "eu-west-1b"})[0]
	v := g.volume(t, 1)
	wants(t, "AttachVolume", g.tries(t, v.ID, id, 1), group.ErrUnsupported)
	if c.count("AttachVolume") != 0 {
		t.Error("EC2 is asked to attach it")
	}
	// EC2's own refusal, had the plugin not known.
	c.fault("DescribeVolumes", 1, func(_ *cloud, _ apiCall, forward func() answer) (answer, bool) {
		a := forward()
		a.body = []byte(strings.ReplaceAll(string(a.body), "eu-west-1a", "eu-west-1b"))
		return a, true
	})
	err := g.tries(t, v.ID, id, 1)
	wants(t, "AttachVolume", err, group.ErrUnsupported)
	if !strings.Contains(err.Error(), "InvalidVolume.ZoneMismatch") {
		t.Error(err)
	}
}

func TestMachinesWithoutNVMeGetNoVolume(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	o := c.inOneZone(t)
	o.Shapes = []Shape{{InstanceTypes: []string{"m4.large"}}}
	g := open(t, o)
	id := g.create(t, request(1, 1))[0]
	v := g.volume(t, 1)
	err := g.tries(t, v.ID, id, 1)
	wants(t, "AttachVolume", err, group.ErrUnsupported)
	if !strings.Contains(err.Error(), "m4.large have no NVMe devices") || c.count("AttachVolume") != 0 {
		t.Error(err)
	}
}

func TestWindowsMachinesHaveNoVolumes(t *testing.T) {
	t.Parallel()
	g := &Group{settings: group.Settings{ConnectorConfig: group.ConnectorConfig{OS: windows}}}
	wants(t, "NoVolumes", g.NoVolumes(), group.ErrUnsupported)
}

func TestAMachineThatDoesNotRunGetsNoVolume(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 2)
	v := g.volume(t, 1)
	g.list(t)
	c.fault("DescribeInstances", 1, func(_ *cloud, _ apiCall, forward func() answer) (answer, bool) {
		a := forward()
		a.body = []byte(strings.ReplaceAll(string(a.body), "<name>running</name>", "<name>pending</name>"))
		return a, true
	})
	wants(t, "one that is pending", g.tries(t, v.ID, ids[0], 1), group.ErrTransient)
	if _, err := c.api.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids[:1]}); err != nil {
		t.Fatal(err)
	}
	wants(t, "one that ended since the last list", g.tries(t, v.ID, ids[0], 1), group.ErrNotFound)
	if _, err := g.Suspend(t.Context(), ids[1:]); err != nil {
		t.Fatal(err)
	}
	wants(t, "one that is stopped", g.tries(t, v.ID, ids[1], 1), group.ErrNotFound)
	if on, tags := c.on(t, v.ID); on != "" || tags[epochTag] != "0" {
		t.Errorf("it is on %q with %v", on, tags)
	}
}

func TestATerminatedMachineLetsItsVolumeGo(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(t *testing.T) (*cloud, opened, string){
		"by shape": func(t *testing.T) (*cloud, opened, string) {
			c, g, ids := withMachines(t, 1)
			return c, g, ids[0]
		},
		"Auto Scaling group": func(t *testing.T) (*cloud, opened, string) {
			c := newCloud(t, motoURL(t))
			g := open(t, c.scaledIn(t, 5, "eu-west-1a"))
			return c, g, g.grow(t, 1)[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, g, id := make(t)
			v, err := g.CreateVolume(t.Context(), group.VolumeRequest{ID: "r", Size: gib}) // its zone is that of the machine
			if err != nil {
				t.Fatal(err)
			}
			g.attach(t, v.ID, id, 1)
			if on, _ := c.on(t, v.ID); on != id {
				t.Fatalf("it is on %q", on)
			}
			if _, err := g.Delete(t.Context(), []string{id}); err != nil {
				t.Fatal(err)
			}
			g.detach(t, v.ID, id, 1)
			if on, tags := c.on(t, v.ID); on != "" || tags[fenceTag] != "1" || c.count("DetachVolume") != 0 {
				t.Errorf("it is on %q with %v, after %d calls", on, tags, c.count("DetachVolume"))
			}
		})
	}
}

func TestAVolumeThatIsBusyIsNotDetachedYet(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 1)
	v := g.volume(t, 1)
	g.attach(t, v.ID, ids[0], 1)
	a := group.Attachment{Volume: v.ID, Instance: ids[0], Epoch: 1}
	kept := func(_ *cloud, call apiCall, _ func() answer) (answer, bool) { // by a machine that has it mounted
		return xmlAnswer(http.StatusOK, "<DetachVolumeResponse><status>detaching</status></DetachVolumeResponse>"), true
	}
	c.fault("DetachVolume", 1, kept)
	c.fault("DescribeVolumes", 1, inState("attached", "attached"))
	c.fault("DescribeVolumes", 2, inState("attached", "detaching"))
	wants(t, "DetachVolume", g.DetachVolume(t.Context(), a), group.ErrTransient)
	wants(t, "AttachVolume", g.tries(t, v.ID, ids[0], 2), group.ErrTransient)
	c.fault("DescribeVolumes", 1, inState("attached", "busy"))
	if got := g.volumes(t)[v.ID]; got.Instance != ids[0] {
		t.Errorf("a volume that is busy is on %q", got.Instance)
	}
	wants(t, "deleting it", g.DeleteVolume(t.Context(), v.ID), group.ErrInUse)
	g.detach(t, v.ID, ids[0], 2)
	if on, _ := c.on(t, v.ID); on != "" {
		t.Errorf("it is on %q", on)
	}
}

// The call that attaches the volume is given up, and comes to EC2 after the volume was to be detached.
func TestAnAttachmentThatComesLateIsWaitedFor(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 1)
	g.own.disks.late = time.Hour
	v := g.volume(t, 1)
	hold, arrived, landed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	c.fault("AttachVolume", 1, func(_ *cloud, call apiCall, _ func() answer) (answer, bool) {
		close(arrived)
		<-hold
		c.byHand(t, v.ID, ids[0])
		close(landed)
		return answer{}, false
	})
	ctx, giveUp := context.WithCancel(t.Context())
	go func() { <-arrived; giveUp() }()
	a := group.Attachment{Volume: v.ID, Instance: ids[0], Epoch: 1}
	if _, err := g.AttachVolume(ctx, a); err == nil {
		t.Fatal("the call works")
	}
	wants(t, "DetachVolume before it lands", g.DetachVolume(t.Context(), a), group.ErrTransient)
	close(hold)
	<-landed
	g.detach(t, v.ID, ids[0], 1)
	if on, tags := c.on(t, v.ID); on != "" || tags[fenceTag] != "1" {
		t.Errorf("it is on %q with %v", on, tags)
	}
}

func TestACallThatNeverLandsIsNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 1)
	g.own.disks.late = time.Nanosecond
	v := g.volume(t, 1)
	c.fault("AttachVolume", 5, drop)
	wants(t, "AttachVolume", g.tries(t, v.ID, ids[0], 1), group.ErrTransient)
	g.detach(t, v.ID, ids[0], 1)
	wants(t, "AttachVolume with the same epoch", g.tries(t, v.ID, ids[0], 1), group.ErrInUse)
}

// A process records an epoch and dies. The one after it cannot know whether EC2 was asked.
func TestAnotherProcessWaitsForAnAttachmentThatMayCome(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 1)
	v := g.volume(t, 1)
	c.tag(t, v.ID, epochTag, "4")
	a := group.Attachment{Volume: v.ID, Instance: ids[0], Epoch: 4}
	g.own.disks.late = time.Hour
	wants(t, "DetachVolume", g.DetachVolume(t.Context(), a), group.ErrTransient)
	g.own.disks.late = 0
	g.detach(t, v.ID, ids[0], 4)
	// Another process may have died while it waited: the fence does not say that it was done.
	next := open(t, c.inOneZone(t))
	next.own.disks.late = time.Hour
	wants(t, "DetachVolume again", next.DetachVolume(t.Context(), a), group.ErrTransient)
	wants(t, "AttachVolume", next.tries(t, v.ID, ids[0], 4), group.ErrInUse)
	next.attach(t, v.ID, ids[0], 5)
}

func TestAFenceThatAnotherProcessSetsMeanwhileCounts(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 1)
	v := g.volume(t, 1)
	c.fault("AttachVolume", 1, func(c *cloud, _ apiCall, forward func() answer) (answer, bool) {
		c.tag(t, v.ID, fenceTag, "1")
		return forward(), true
	})
	wants(t, "AttachVolume", g.tries(t, v.ID, ids[0], 1), group.ErrInUse)
	if on, _ := c.on(t, v.ID); on != "" {
		t.Errorf("it stays on %q", on)
	}
}

// A call of a process that is dead has attached a volume that was detached before. Nobody asks for that to end.
func TestAnAttachmentThatCameTooLateIsEndedByTheNext(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 2)
	v := g.volume(t, 1)
	c.tag(t, v.ID, epochTag, "3")
	c.tag(t, v.ID, fenceTag, "3")
	c.byHand(t, v.ID, ids[0])
	wants(t, "AttachVolume", g.tries(t, v.ID, ids[1], 4), group.ErrInUse)
	g.attach(t, v.ID, ids[1], 4)
	if !strings.Contains(g.log.String(), "came too late") {
		t.Error("nothing is logged")
	}
	// What is on a machine of somebody else is left there.
	other := newMachine(t, c)
	g.detach(t, v.ID, ids[1], 4)
	c.byHand(t, v.ID, other)
	wants(t, "AttachVolume", g.tries(t, v.ID, ids[1], 5), group.ErrInUse)
	if on, _ := c.on(t, v.ID); on != other {
		t.Errorf("it is on %q", on)
	}
}

// newMachine makes a machine that is nobody's.
func newMachine(t testing.TB, c *cloud) string {
	t.Helper()
	out, err := c.api.ec2.RunInstances(t.Context(), &ec2.RunInstancesInput{
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: aws.String(c.subnets(t)[0]), LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("runner")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return aws.ToString(out.Instances[0].InstanceId)
}

func TestVolumesOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 1)
	them, err := tryOpen(t, c.inOneZone(t), group.Settings{Owner: "them"})
	if err != nil {
		t.Fatal(err)
	}
	theirs := them.volume(t, 1)
	if ours := g.volume(t, 1); ours.ID == theirs.ID {
		t.Error("a request of one owner has the volume of another one")
	}
	// The disk of a machine, to which somebody copies the machine's tags.
	var disk string
	for _, v := range c.allVolumes(t) {
		if len(v.Attachments) > 0 && aws.ToString(v.Attachments[0].InstanceId) == ids[0] {
			disk = aws.ToString(v.VolumeId)
		}
	}
	c.tag(t, disk, group.OwnerLabel, "us")
	c.tag(t, disk, group.RequestLabel, "request-1")
	for _, id := range []string{theirs.ID, disk} {
		if _, listed := g.volumes(t)[id]; listed {
			t.Errorf("%s is listed", id)
		}
		wants(t, "attaching it", g.tries(t, id, ids[0], 1), group.ErrNotFound)
		wants(t, "detaching it", g.DetachVolume(t.Context(), group.Attachment{Volume: id, Instance: ids[0], Epoch: 1}), group.ErrNotFound)
		if err := g.DeleteVolume(t.Context(), id); err != nil {
			t.Error(err)
		}
		if c.motoVolume(id) == nil {
			t.Errorf("%s is deleted", id)
		}
	}
	for _, operation := range []string{"CreateTags", "AttachVolume", "DetachVolume", "DeleteVolume"} {
		if n := c.count(operation); n != 0 {
			t.Errorf("there were %d calls of %s", n, operation)
		}
	}
}

func (c *cloud) allVolumes(t testing.TB) []types.Volume {
	t.Helper()
	out, err := c.api.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{})
	if err != nil {
		t.Fatal(err)
	}
	return out.Volumes
}

func TestListsThatLagBehindLoseNoVolume(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 1)
	g.volumes(t)
	v := g.volume(t, 1)
	c.fault("DescribeVolumes", 1, func(*cloud, apiCall, func() answer) (answer, bool) {
		return xmlAnswer(http.StatusOK, "<DescribeVolumesResponse><volumeSet/></DescribeVolumesResponse>"), true
	})
	if got := g.volumes(t)[v.ID]; got.Request != "volume-1" || got.Labels["rung-project"] != "a-project" {
		t.Errorf("one that is new is listed as %+v", got)
	}
	for what, do := range map[string]func() error{
		"AttachVolume": func() error { return g.tries(t, v.ID, ids[0], 1) },
		"DetachVolume": func() error {
			return g.DetachVolume(t.Context(), group.Attachment{Volume: v.ID, Instance: ids[0], Epoch: 1})
		},
		"DeleteVolume": func() error { return g.DeleteVolume(t.Context(), v.ID) },
	} {
		c.fault("DescribeVolumes", 1, refuse(400, "InvalidVolume.NotFound"))
		wants(t, what+" of one that is new", do(), group.ErrTransient)
	}
	g.attach(t, v.ID, ids[0], 5)
	// A list from before it was attached.
	c.fault("DescribeVolumes", 1, func(c *cloud, call apiCall, _ func() answer) (answer, bool) {
		return xmlAnswer(http.StatusOK, fmt.Sprintf(`<DescribeVolumesResponse><volumeSet><item><volumeId>%s</volumeId><availabilityZone>eu-west-1a</availabilityZone><status>available</status><attachmentSet/>
<tagSet><item><key>rung-owner</key><value>us</value></item><item><key>rung-volume-epoch</key><value>0</value></item></tagSet></item></volumeSet></DescribeVolumesResponse>`, v.ID)), true
	})
	wants(t, "an attachment with an earlier epoch", g.tries(t, v.ID, ids[0], 4), group.ErrInUse)
	if n := c.count("AttachVolume"); n != 1 {
		t.Errorf("EC2 is asked to attach it %d times", n)
	}
	g.detach(t, v.ID, ids[0], 5)
	c.fault("DescribeVolumes", 1, stale)
	if err := g.DeleteVolume(t.Context(), v.ID); err != nil {
		t.Fatal(err)
	}
	c.fault("DescribeVolumes", 1, stale)
	if got := g.volumes(t); len(got) != 0 {
		t.Errorf("one that is deleted is listed: %v", got)
	}
	wants(t, "AttachVolume of one that is deleted", g.tries(t, v.ID, ids[0], 6), group.ErrNotFound)
}

// A list that lags behind has a volume on no machine, while EC2 has attached it.
func TestAVolumeIsNotDetachedBecauseAListLagsBehind(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 1)
	v := g.volume(t, 1)
	before := func(c *cloud, call apiCall, forward func() answer) (answer, bool) {
		head, rest, _ := strings.Cut(string(forward().body), "<attachmentSet>")
		_, tail, _ := strings.Cut(rest, "</attachmentSet>")
		return xmlAnswer(http.StatusOK, head+strings.Replace(tail, "<status>in-use</status>", "<status>available</status>", 1)), true
	}
	c.fault("DescribeVolumes", 1, inState("available", "available"))
	c.fault("DescribeVolumes", 1, before)
	wants(t, "AttachVolume", g.tries(t, v.ID, ids[0], 1), group.ErrTransient)
	c.fault("DescribeVolumes", 1, before)
	c.fault("DetachVolume", 1, func(*cloud, apiCall, func() answer) (answer, bool) {
		return xmlAnswer(http.StatusOK, "<DetachVolumeResponse><status>detaching</status></DetachVolumeResponse>"), true
	})
	a := group.Attachment{Volume: v.ID, Instance: ids[0], Epoch: 1}
	wants(t, "DetachVolume", g.DetachVolume(t.Context(), a), group.ErrTransient)
	g.detach(t, v.ID, ids[0], 1)
	if on, _ := c.on(t, v.ID); on != "" {
		t.Errorf("it is on %q", on)
	}
}

func TestATagThatIsNotANumberIsSaid(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 1)
	v := g.volume(t, 1)
	c.tag(t, v.ID, fenceTag, "none")
	if err := g.tries(t, v.ID, ids[0], 1); err == nil || !strings.Contains(err.Error(), `the tag rung-volume-fence of the volume `+v.ID+` is "none"`) {
		t.Error(err)
	}
	if _, listed := g.volumes(t)[v.ID]; !listed {
		t.Error("it is not listed")
	}
}

func TestAVolumeIsDeletedOnce(t *testing.T) {
	t.Parallel()
	c, g, ids := withMachines(t, 1)
	v := g.volume(t, 1)
	g.attach(t, v.ID, ids[0], 1)
	wants(t, "one that is attached", g.DeleteVolume(t.Context(), v.ID), group.ErrInUse)
	g.detach(t, v.ID, ids[0], 1)
	c.fault("DeleteVolume", 1, refuse(400, "IncorrectState"))
	wants(t, "one that EC2 is busy with", g.DeleteVolume(t.Context(), v.ID), group.ErrTransient)
	c.fault("DeleteVolume", 1, refuse(400, "VolumeInUse"))
	wants(t, "one that was attached since", g.DeleteVolume(t.Context(), v.ID), group.ErrInUse)
	c.fault("DeleteVolume", 1, lose)
	for range 2 {
		if err := g.DeleteVolume(t.Context(), v.ID); err != nil {
			t.Error(err)
		}
	}
	if len(c.owned(t)) != 0 {
		t.Error("it exists")
	}
}
