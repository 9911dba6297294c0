package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/compute/v1"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/sdk/instancegroup"
)

// volume makes a volume.
func (f *fleet) volume(r group.VolumeRequest) group.Volume {
	f.Helper()
	r.Size = max(r.Size, 1)
	var v group.Volume
	f.until("CreateVolume", func() (err error) {
		v, err = f.CreateVolume(f.Context(), r)
		return err
	})
	return v
}

// until makes a call until its error is not transient.
func (f *fleet) until(what string, call func() error) {
	f.Helper()
	if err := f.settled(call); err != nil {
		f.Fatalf("%s: %v", what, err)
	}
}

// settled is the first error of a call that is not transient.
func (f *fleet) settled(call func() error) (err error) {
	f.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if err = call(); !errors.Is(err, group.ErrTransient) {
			return err
		}
	}
	f.Fatalf("it does not settle: %v", err)
	return err
}

// attach attaches a volume, and returns where it is.
func (f *fleet) attach(v group.Volume, machine string, epoch uint64) (at string, err error) {
	f.Helper()
	err = f.settled(func() (err error) {
		at, err = f.AttachVolume(f.Context(), group.Attachment{Volume: v.ID, Instance: machine, Epoch: epoch})
		return err
	})
	return at, err
}

func (f *fleet) mustAttach(v group.Volume, machine string, epoch uint64) string {
	f.Helper()
	at, err := f.attach(v, machine, epoch)
	if err != nil {
		f.Fatal("AttachVolume:", err)
	}
	return at
}

func (f *fleet) detach(v group.Volume, machine string, epoch uint64) error {
	f.Helper()
	return f.settled(func() error {
		return f.DetachVolume(f.Context(), group.Attachment{Volume: v.ID, Instance: machine, Epoch: epoch})
	})
}

// listed are the volumes of the list, by id.
func (f *fleet) listed() map[string]group.Volume {
	f.Helper()
	all, err := f.Volumes(f.Context())
	if err != nil {
		f.Fatal("Volumes:", err)
	}
	out := map[string]group.Volume{}
	for _, v := range all {
		out[v.ID] = v
	}
	return out
}

// running makes a machine that runs.
func (f *fleet) running(r group.Request) string {
	f.Helper()
	id := f.make(r)
	f.await(id, is(group.StateRunning))
	return id
}

// diskOf is the disk of a volume.
func (f *fleet) diskOf(v group.Volume) *volumeDisk {
	f.Helper()
	d := f.volumeDisks()[v.ID]
	if d == nil {
		f.Fatalf("the volume %s has no disk", v.ID)
	}
	return d
}

func TestAVolumeIsADiskWithAllThatItWasAskedFor(t *testing.T) {
	t.Parallel()
	const key = "projects/p/locations/eu/keyRings/r/cryptoKeys/k"
	s := newServer(t)
	mode := maps.Clone(modes["single instances"])
	mode["zones"], mode["volume_type"], mode["volume_kms_key"], mode["machine_types"] = []string{"eu-a"}, "hyperdisk-balanced", key, []options{{"name": "n2-small"}}
	f := mustOpen(t, s, mode)
	want := map[string]string{"rung-project": "Group/Ünit (1)", "Rung-Epoch": "7", "empty": ""}
	v := f.volume(group.VolumeRequest{ID: "Request_1", Size: 5<<30 + 1, Labels: want})
	labels := maps.Clone(want)
	labels["cost-centre"], labels[group.OwnerLabel], labels[group.RequestLabel] = "R&D", "Runner_1", "Request_1"
	if v.Request != "Request_1" || v.Size != 6<<30 || v.Zone != "eu-a" || v.Instance != "" || v.Created.IsZero() || !maps.Equal(v.Labels, labels) {
		t.Errorf("it is %+v", v)
	}
	if now := f.listed()[v.ID]; !maps.Equal(now.Labels, labels) || now.Size != v.Size || now.Request != v.Request {
		t.Errorf("it is listed as %+v", now)
	}
	f.change(func() {
		d := f.diskOf(v)
		if d.DiskEncryptionKey == nil || d.DiskEncryptionKey.KmsKeyName != key || short(d.Type) != "hyperdisk-balanced" {
			t.Errorf("the disk is %+v", d)
		}
		if d.Labels["rung-project"] != "group__nit__1_" || d.Labels[epochLabel] != "0" || d.Labels["cost-centre"] != "r_d" {
			t.Errorf("its labels are %v", d.Labels)
		}
	})
	if small := f.volume(group.VolumeRequest{ID: "small", Size: 1}); small.Size != 4<<30 {
		t.Errorf("a small one has %d bytes, not the least of its type", small.Size)
	}
	machine := f.running(group.Request{ID: "r"})
	number := strings.Split(v.ID, "/")[1]
	if at := f.mustAttach(v, machine, 3); at != "/dev/disk/by-id/google-rung-"+number+"-3" {
		t.Errorf("it is at %s", at)
	}
	f.change(func() {
		on := f.only(t).Disks
		if len(on) != 2 || on[1].AutoDelete || on[1].Mode != "READ_WRITE" || on[1].DeviceName != "rung-"+number+"-3" {
			t.Errorf("the machine has %+v", on)
		}
	})
}

func TestTheListHasTheVolumesOfTheOwnerInAllZonesAndNoOtherDisks(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	f := mustOpen(t, s, modes["single instances"])
	with := settings(t)
	with.Owner = "another"
	other, err := open(t, s, modes["single instances"], with)
	if err != nil {
		t.Fatal(err)
	}
	foreign := other.volume(group.VolumeRequest{ID: "r0"})
	f.running(group.Request{ID: "r"})
	want := map[string]bool{}
	for i := range 5 {
		want[f.volume(group.VolumeRequest{ID: fmt.Sprint("r", i), Zone: []string{"eu-a", "eu-b"}[i%2]}).ID] = true
	}
	s.change(func() { // a person's, with a name like those of volumes
		name := short(slices.Sorted(maps.Keys(want))[0])
		s.addDisk("eu-a", &compute.Disk{Name: name[:len(name)-4] + "mine", SizeGb: 10, Description: "mine"})
	})
	later := mustOpen(t, s, options{"instance_template": "ci", "zones": []string{"eu-b"}}) // has nothing in its memory, and other zones
	if got := later.listed(); !maps.EqualFunc(want, got, func(bool, group.Volume) bool { return true }) {
		t.Errorf("%v is listed, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	s.change(func() { s.unreachable = []string{"zones/eu-a"} })
	if _, err := later.Volumes(t.Context()); !errors.Is(err, group.ErrTransient) || !strings.Contains(err.Error(), "zones/eu-a") {
		t.Error("a list that lacks a zone:", err)
	}
	machine := f.running(group.Request{ID: "m"})
	if _, err := f.attach(foreign, machine, 1); !errors.Is(err, group.ErrNotFound) {
		t.Error("attaching another owner's:", err)
	}
	if err := f.detach(foreign, machine, 1); !errors.Is(err, group.ErrNotFound) {
		t.Error("detaching another owner's:", err)
	}
	if err := f.DeleteVolume(t.Context(), foreign.ID); err != nil || other.volume(group.VolumeRequest{ID: "r0"}).ID != foreign.ID {
		t.Error("another owner's is deleted:", err)
	}
	mine := f.volume(group.VolumeRequest{ID: "r0"})
	theirs := other.running(group.Request{ID: "r"})
	if _, err := f.attach(mine, theirs, 1); !errors.Is(err, group.ErrNotFound) {
		t.Error("attaching to a machine of another owner:", err)
	}
}

func TestARequestMakesOneVolumeForGood(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	lose, stale := true, false
	s.fault = func(method string) (f fault) {
		if method == "compute.disks.insert" {
			f.lost, lose = lose, false
		}
		f.stale = method == "compute.disks.aggregatedList" && stale
		return f
	}
	f := mustOpen(t, s, modes["single instances"])
	if all := f.listed(); len(all) > 0 {
		t.Fatal(all)
	}
	s.guard.Lock()
	stale = true
	s.guard.Unlock()
	v := f.volume(group.VolumeRequest{ID: "r"})
	if s.count("compute.disks.insert") < 2 {
		t.Error("no answer was lost")
	}
	again := func(what string, mode options) {
		t.Helper()
		if next := mustOpen(t, s, mode).volume(group.VolumeRequest{ID: "r", Size: 99 << 30}); next.ID != v.ID || next.Size != v.Size {
			t.Errorf("%s: %+v, not %+v", what, next, v)
		}
	}
	again("a process after a crash, with a stale list", modes["single instances"])
	s.guard.Lock()
	stale = false
	s.guard.Unlock()
	s.change(func() { clear(s.requests) })
	again("the request ids are forgotten, and the options have changed", options{"instance_template": "ci", "zones": []string{"eu-b", "eu-a"}})
	elsewhere := mustOpen(t, s, options{"instance_template": "ci", "zones": []string{"eu-b"}})
	for _, zone := range []string{"", "eu-a"} {
		if next := elsewhere.volume(group.VolumeRequest{ID: "r", Zone: zone}); next.ID != v.ID {
			t.Errorf("its zone is none of the options any more, and it is asked for in %q: %+v", zone, next)
		}
	}
	s.change(func() {
		if n := len(s.volumeDisks()); n != 1 {
			t.Errorf("there are %d disks", n)
		}
	})
	f.until("DeleteVolume", func() error { return f.DeleteVolume(t.Context(), v.ID) })
	if next := f.volume(group.VolumeRequest{ID: "r"}); next.ID == v.ID {
		t.Error("the id of a volume was used again")
	}
	if err := f.DeleteVolume(t.Context(), v.ID); err != nil || len(f.listed()) != 1 {
		t.Error("the end of the one before has ended the next:", err)
	}
}

func TestAStaleListDoesNotHideWhatWasDone(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.fault = func(method string) fault { return fault{stale: method == "compute.disks.aggregatedList"} }
	f := mustOpen(t, s, modes["a group of a zone"])
	f.listed()
	v := f.volume(group.VolumeRequest{ID: "r"})
	machine := f.running(group.Request{ID: "r"})
	f.mustAttach(v, machine, 1)
	if now := f.listed()[v.ID]; now.Instance != machine {
		t.Errorf("after it was attached, it is listed as %+v", now)
	}
	if err := f.detach(v, machine, 1); err != nil || f.listed()[v.ID].Instance != "" {
		t.Errorf("after it was detached, it is listed as %+v, %v", f.listed()[v.ID], err)
	}
	f.until("DeleteVolume", func() error { return f.DeleteVolume(t.Context(), v.ID) })
	if all := f.listed(); len(all) > 0 {
		t.Errorf("after it was deleted, %v is listed", all)
	}
}

func TestAQuotaOfDisksIsOne(t *testing.T) {
	for _, code := range []string{"quotaExceeded", "QUOTA_EXCEEDED"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.exhausted["disks"] = code
			f := mustOpen(t, s, modes["single instances"])
			for range 2 {
				if _, err := f.CreateVolume(t.Context(), group.VolumeRequest{ID: "r", Size: 1}); !errors.Is(err, group.ErrQuota) || !strings.Contains(err.Error(), "SSD_TOTAL_GB") {
					t.Error(err)
				}
			}
			s.change(func() { clear(s.exhausted) })
			f.volume(group.VolumeRequest{ID: "r"})
		})
	}
}

func TestAVolumeThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, newServer(t), modes["single instances"])
	for name, c := range map[string]struct {
		r    group.VolumeRequest
		kind error
		want string
	}{
		"elsewhere":      {group.VolumeRequest{Zone: "eu-z"}, group.ErrNotFound, "no machine that could have the volume is made in the zone eu-z"},
		"too large":      {group.VolumeRequest{Size: 65537 << 30}, group.ErrUnsupported, "have 65536 GiB at most, and 65537 GiB were asked for"},
		"too many words": {group.VolumeRequest{Labels: map[string]string{"a": strings.Repeat("x", maxNote)}}, group.ErrUnsupported, "use fewer or shorter labels"},
	} {
		c.r.ID, c.r.Size = "r", max(c.r.Size, 1)
		if _, err := f.CreateVolume(t.Context(), c.r); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	v := f.volume(group.VolumeRequest{ID: "r"})
	f.change(func() { f.diskOf(v).Status = "FAILED" })
	if _, err := f.CreateVolume(t.Context(), group.VolumeRequest{ID: "r", Size: 1}); !errors.Is(err, group.ErrUnsupported) || !strings.Contains(err.Error(), short(v.ID)+" of eu-a") {
		t.Error("a disk that has failed:", err)
	}
}

func TestTheSizesOfADiskTypeAreThoseThatTheAPISays(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.diskTypes["eu-a/pd-balanced"] = ""
	if v := mustOpen(t, s, modes["single instances"]).volume(group.VolumeRequest{ID: "r"}); v.Size != 10<<30 {
		t.Errorf("where it does not say, the least is %d", v.Size)
	}
	for text, want := range map[string]int64{"10GB": 10, "64TB": 65536, "": 0, "GB": 0, "many": 0} {
		if got, ok := gigabytes(text); got != want || ok != (want > 0) {
			t.Errorf("%q is %d, %t", text, got, ok)
		}
	}
}

func TestAVolumeIsOnMachinesOfItsZone(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, newServer(t), modes["single instances"])
	v := f.volume(group.VolumeRequest{ID: "r", Zone: "eu-b"})
	machine := f.running(group.Request{ID: "m", Zone: "eu-a"})
	if _, err := f.attach(v, machine, 1); !errors.Is(err, group.ErrNotFound) || !strings.Contains(err.Error(), "no machine "+machine+" that runs in the zone eu-b") {
		t.Error(err)
	}
	f.mustAttach(v, f.running(group.Request{ID: "n", Zone: "eu-b"}), 2)
}

func TestAMachineThatEndsLetsItsVolumeGo(t *testing.T) {
	for name, mode := range modes {
		if mode["region"] != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			f := mustOpen(t, s, mode)
			v := f.volume(group.VolumeRequest{ID: "r"})
			first, second := f.running(group.Request{ID: "a"}), f.running(group.Request{ID: "b"})
			f.mustAttach(v, first, 1)
			s.change(func() { s.stop(s.vms["eu-a/"+first], "stop", "", "STOPPING", "TERMINATED") })
			f.await(first, func(i group.Instance) bool {
				return i.State == group.StateFailed && strings.Contains(i.Reason, "stopped")
			})
			if now := f.listed()[v.ID]; now.Instance != first {
				t.Errorf("a machine that is stopped keeps its disks, and it is listed as %+v", now)
			}
			if _, err := f.attach(v, second, 2); !errors.Is(err, group.ErrInUse) {
				t.Error("attaching it elsewhere:", err)
			}
			if err := f.detach(v, first, 1); err != nil {
				t.Error("detaching it from a machine that is stopped:", err)
			}
			f.mustAttach(v, second, 2)
			if _, err := f.Delete(t.Context(), []string{second}); err != nil {
				t.Fatal(err)
			}
			if err := f.settled(func() error {
				if f.listed()[v.ID].Instance != "" {
					return group.Transient(0, errors.New("it has it yet"))
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			if err := f.detach(v, second, 2); err != nil {
				t.Error("detaching it from a machine that is gone:", err)
			}
			f.mustAttach(v, f.running(group.Request{ID: "c"}), 3)
		})
	}
}

func TestAnInstanceThatItsGroupMakesAgainHasNoVolume(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	f := mustOpen(t, s, modes["a group of a zone"])
	v := f.volume(group.VolumeRequest{ID: "r"})
	first, second := f.running(group.Request{ID: "a"}), f.running(group.Request{ID: "b"})
	f.mustAttach(v, first, 1)
	s.change(func() {
		before := s.vms["eu-a/"+first]
		s.letGo(before)
		again := before.Instance
		s.members[zonal][first].vm = s.make("eu-a", first, &again)
	})
	f.await(first, is(group.StateFailed))
	if err := f.detach(v, first, 1); err != nil {
		t.Fatal(err)
	}
	if now := f.listed()[v.ID]; now.Instance != "" {
		t.Errorf("it is listed as %+v", now)
	}
	f.mustAttach(v, second, 2)
}

func TestTheEndOfAnEarlierAttachmentLeavesTheLaterOne(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, newServer(t), modes["single instances"])
	v := f.volume(group.VolumeRequest{ID: "r"})
	machine := f.running(group.Request{ID: "a"})
	at := f.mustAttach(v, machine, 4)
	if err := f.detach(v, machine, 3); err != nil {
		t.Error(err)
	}
	f.change(func() {
		if d := f.diskOf(v); len(d.Users) != 1 || d.Labels[fenceLabel] != "0" {
			t.Errorf("it is on %v, and its labels are %v", d.Users, d.Labels)
		}
	})
	if next := f.mustAttach(v, machine, 5); next != at {
		t.Errorf("attached with a later epoch where it is, it has moved from %s to %s", at, next)
	}
	if _, err := f.attach(v, machine, 4); !errors.Is(err, group.ErrInUse) {
		t.Error("the attachment before:", err)
	}
	if err := f.detach(v, machine, 5); err != nil || f.listed()[v.ID].Instance != "" {
		t.Errorf("%v; it is listed as %+v", err, f.listed()[v.ID])
	}
}

func TestAVolumeStaysOnASuspendedMachine(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, newServer(t), modes["single instances"])
	v := f.volume(group.VolumeRequest{ID: "r"})
	machine := f.running(group.Request{ID: "a"})
	f.mustAttach(v, machine, 1)
	if _, err := f.Suspend(t.Context(), []string{machine}); err != nil {
		t.Fatal(err)
	}
	f.await(machine, is(group.StateSuspended))
	if err := f.DetachVolume(t.Context(), group.Attachment{Volume: v.ID, Instance: machine, Epoch: 1}); !errors.Is(err, group.ErrTransient) || f.listed()[v.ID].Instance != machine {
		t.Errorf("%v; it is listed as %+v", err, f.listed()[v.ID])
	}
	if _, err := f.attach(v, machine, 2); !errors.Is(err, group.ErrNotFound) {
		t.Error("attaching it to a machine that does not run:", err)
	}
	if _, err := f.Resume(t.Context(), []string{machine}); err != nil {
		t.Fatal(err)
	}
	f.await(machine, is(group.StateRunning))
	if err := f.detach(v, machine, 1); err != nil {
		t.Error(err)
	}
}

func TestAnAttachmentThatIsUnderWayIsWaitedForByTheOneWhoEndsIt(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	f := mustOpen(t, s, modes["single instances"])
	v := f.volume(group.VolumeRequest{ID: "r"})
	machine := f.running(group.Request{ID: "a"})
	s.guard.Lock()
	s.fault = func(method string) fault {
		if method == "compute.instances.attachDisk" {
			s.change(func() { s.held = true })
		}
		return fault{}
	}
	s.guard.Unlock()
	ctx, giveUp := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := f.AttachVolume(ctx, group.Attachment{Volume: v.ID, Instance: machine, Epoch: 1})
		result <- err
	}()
	for s.count("compute.instances.attachDisk") == 0 {
		time.Sleep(time.Millisecond)
	}
	giveUp()
	if err := <-result; err == nil {
		t.Error("what was given up has worked")
	}
	s.guard.Lock()
	s.fault = func(string) fault { return fault{} }
	s.guard.Unlock()
	next := mustOpen(t, s, modes["single instances"]) // another process, after a crash
	if now := next.listed()[v.ID]; now.Instance != machine {
		t.Errorf("it may be on %s, and is listed as %+v", machine, now)
	}
	// its fence is set without the world's help
	s.change(func() {
		d := f.diskOf(v)
		d.Labels = maps.Clone(d.Labels)
		d.Labels[fenceLabel] = "1"
		d.LabelFingerprint = fingerprint(d.Labels)
	})
	end := group.Attachment{Volume: v.ID, Instance: machine, Epoch: 1}
	if err := next.DetachVolume(t.Context(), end); !errors.Is(err, group.ErrTransient) || !strings.Contains(err.Error(), "is being attached to "+machine) {
		t.Error("ending what is under way:", err)
	}
	s.guard.Lock()
	s.fault = func(method string) fault { // it comes between the look at the disk and that at the operations
		if method == "compute.zoneOperations.list" {
			s.change(func() {
				s.held = false
				s.look()
				s.look()
			})
		}
		return fault{}
	}
	s.guard.Unlock()
	if err := next.detach(v, machine, 1); err != nil {
		t.Error(err)
	}
	s.change(func() {
		if d := f.diskOf(v); len(d.Users) > 0 || d.Labels[fenceLabel] != "1" {
			t.Errorf("it is on %v, and its labels are %v", d.Users, d.Labels)
		}
	})
	if _, err := f.attach(v, machine, 1); !errors.Is(err, group.ErrInUse) {
		t.Error("the process before attaches it again:", err)
	}
}

// comesLate lets an attachment arrive of a process that has died.
func (f *fleet) comesLate(v group.Volume, machine string, epoch uint64) {
	f.Helper()
	f.change(func() {
		d := f.diskOf(v)
		f.put(d, f.vms[v.Zone+"/"+machine], fmt.Sprintf("rung-%d-%d", d.Id, epoch), false)
	})
}

func TestAnAttachmentThatComesAfterItsEndIsEnded(t *testing.T) {
	for name, c := range map[string]struct {
		does func(f *fleet, v group.Volume, first, second string) error
		gone bool
	}{
		"by attaching it elsewhere": {func(f *fleet, v group.Volume, _, second string) error {
			_, err := f.attach(v, second, 2)
			return err
		}, false},
		"by attaching it there": {func(f *fleet, v group.Volume, first, _ string) error {
			at, err := f.attach(v, first, 2)
			if err == nil && !strings.HasSuffix(at, "-2") {
				err = fmt.Errorf("it is at %s", at)
			}
			return err
		}, false},
		"by detaching it again": {func(f *fleet, v group.Volume, first, _ string) error { return f.detach(v, first, 1) }, false},
		"by deleting it": {func(f *fleet, v group.Volume, _, _ string) error {
			return f.settled(func() error { return f.DeleteVolume(f.Context(), v.ID) })
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := mustOpen(t, newServer(t), modes["single instances"])
			v := f.volume(group.VolumeRequest{ID: "r"})
			first, second := f.running(group.Request{ID: "a"}), f.running(group.Request{ID: "b"})
			f.mustAttach(v, first, 1)
			if err := f.detach(v, first, 1); err != nil {
				t.Fatal(err)
			}
			f.comesLate(v, first, 1)
			if now := f.listed()[v.ID]; now.Instance != first {
				t.Errorf("it is listed as %+v", now)
			}
			if err := c.does(f, v, first, second); err != nil {
				t.Error(err)
			}
			if _, there := f.listed()[v.ID]; there == c.gone {
				t.Errorf("it is listed: %t", there)
			}
		})
	}
}

func TestAFenceThatIsSetWhileADiskIsAttachedEndsThat(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	f := mustOpen(t, s, modes["single instances"])
	v := f.volume(group.VolumeRequest{ID: "r"})
	machine := f.running(group.Request{ID: "a"})
	s.guard.Lock()
	s.fault = func(method string) fault {
		if method == "compute.instances.attachDisk" { // another process, which does not see that the disk is on its way
			s.change(func() {
				d := f.diskOf(v)
				d.Labels = maps.Clone(d.Labels)
				d.Labels[fenceLabel] = "1"
				d.LabelFingerprint = fingerprint(d.Labels)
			})
		}
		return fault{}
	}
	s.guard.Unlock()
	if _, err := f.attach(v, machine, 1); !errors.Is(err, group.ErrInUse) {
		t.Error(err)
	}
	if now := f.listed()[v.ID]; now.Instance != "" {
		t.Errorf("it is listed as %+v", now)
	}
}

func TestLabelsThatOthersChangeAtTheSameTimeStay(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	f := mustOpen(t, s, modes["single instances"])
	v := f.volume(group.VolumeRequest{ID: "r"})
	machine := f.running(group.Request{ID: "a"})
	once := true
	s.guard.Lock()
	s.fault = func(method string) fault {
		if method == "compute.disks.setLabels" && once {
			once = false
			s.change(func() {
				d := f.diskOf(v)
				d.Labels = maps.Clone(d.Labels)
				d.Labels["somebodys"] = "label"
				d.LabelFingerprint = fingerprint(d.Labels)
			})
		}
		return fault{}
	}
	s.guard.Unlock()
	f.mustAttach(v, machine, 4)
	s.change(func() {
		if labels := f.diskOf(v).Labels; labels["somebodys"] != "label" || labels[epochLabel] != "4" || labels[machineLabel] != machine {
			t.Errorf("the labels are %v", labels)
		}
	})
	if s.count("compute.disks.setLabels") != 2 {
		t.Errorf("they were set %d times", s.count("compute.disks.setLabels"))
	}
	s.change(func() {
		d := f.diskOf(v)
		d.Labels = maps.Clone(d.Labels)
		delete(d.Labels, fenceLabel)
		d.LabelFingerprint = fingerprint(d.Labels)
	})
	if _, err := f.attach(v, machine, 5); err == nil || !strings.Contains(err.Error(), "the label rung-fence of the disk") {
		t.Error("without a fence:", err)
	}
}

func TestADiskThatSomebodyHasAttachedByHandIsLeftThere(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	f := mustOpen(t, s, modes["single instances"])
	v := f.volume(group.VolumeRequest{ID: "r"})
	first, second := f.running(group.Request{ID: "a"}), f.running(group.Request{ID: "b"})
	s.change(func() { s.put(f.diskOf(v), s.vms["eu-a/"+first], "a-look", false) })
	for _, machine := range []string{first, second} {
		if _, err := f.attach(v, machine, 1); !errors.Is(err, group.ErrInUse) {
			t.Error("attaching it:", err)
		}
	}
	if err := f.detach(v, second, 1); !errors.Is(err, group.ErrInUse) || !strings.Contains(err.Error(), `as "a-look"`) {
		t.Error("detaching it:", err)
	}
	if err := f.DeleteVolume(t.Context(), v.ID); !errors.Is(err, group.ErrInUse) {
		t.Error("deleting it:", err)
	}
	if now := f.listed()[v.ID]; now.Instance != first || s.count("compute.instances.detachDisk") > 0 {
		t.Errorf("it is listed as %+v", now)
	}
}

func TestCallsAboutVolumesThatTheAPIRefusesHaveTheirKind(t *testing.T) {
	inUse := &refusal{400, "resourceInUseByAnotherResource", "The disk resource is already being used"}
	slow := &refusal{403, "rateLimitExceeded", "Rate Limit Exceeded"}
	type calls struct{ attach, detach, remove error }
	for name, c := range map[string]struct {
		method  string
		refused *refusal
		want    calls // of the calls that are refused
	}{
		"in use":          {"compute.instances.attachDisk", inUse, calls{attach: group.ErrInUse}},
		"in use, deleted": {"compute.disks.delete", inUse, calls{remove: group.ErrInUse}},
		"too many disks":  {"compute.instances.attachDisk", &refusal{403, "limitExceeded", "Exceeded limit 'maximum_persistent_disks'"}, calls{attach: group.ErrQuota}},
		"another family":  {"compute.instances.attachDisk", &refusal{400, "badRequest", "pd-balanced disk type cannot be used by c4-standard-2 machine type"}, calls{attach: group.ErrUnsupported}},
		"no permission":   {"compute.disks.setLabels", &refusal{403, "forbidden", "Required 'compute.disks.setLabels' permission"}, calls{attach: group.ErrUnauthorised, detach: group.ErrUnauthorised}},
		"throttled":       {"compute.disks.get", slow, calls{group.ErrTransient, group.ErrTransient, group.ErrTransient}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			f := mustOpen(t, s, modes["single instances"])
			v := f.volume(group.VolumeRequest{ID: "r"})
			machine := f.running(group.Request{ID: "a"})
			s.guard.Lock()
			s.fault = func(method string) (f fault) {
				if method == c.method {
					f.refused = c.refused
				}
				return f
			}
			s.guard.Unlock()
			check := func(what string, err, want error) {
				if want == nil && err != nil || want != nil && (!errors.Is(err, want) || !strings.Contains(err.Error(), c.refused.message)) {
					t.Errorf("%s: %v, want %v", what, err, want)
				}
			}
			at := group.Attachment{Volume: v.ID, Instance: machine, Epoch: 1}
			_, err := f.AttachVolume(t.Context(), at)
			check("AttachVolume", err, c.want.attach)
			check("DetachVolume", f.DetachVolume(t.Context(), at), c.want.detach)
			if c.want.detach == nil {
				check("DeleteVolume", f.DeleteVolume(t.Context(), v.ID), c.want.remove)
			}
		})
	}
}

func TestTheGroupOfARegionHasNoVolumes(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, newServer(t), modes["a group of a region"])
	if f.Can().Volumes || f.NoVolumes() == nil {
		t.Error("it has volumes")
	}
	c := &cloud{Options: Options{Name: "runners", Region: "eu"}}
	if err := instancegroup.Volumeless(c).NoVolumes(); err == nil || !strings.Contains(err.Error(), "a regional group chooses the zones") {
		t.Error(err)
	}
	if err := (&cloud{Options: Options{Name: "runners", Zone: "eu-a"}}).NoVolumes(); err != nil {
		t.Error(err)
	}
}
