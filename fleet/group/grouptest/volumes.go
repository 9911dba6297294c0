package grouptest

import (
	"fmt"

	"github.com/rungci/rung/fleet/group"
)

// volumeSize is that of the suite's volumes.
const volumeSize = 1 << 30

// withVolumes is a case for groups that have volumes. Others pass it.
func withVolumes(test func(tr *trial)) func(tr *trial) {
	return func(tr *trial) {
		if tr.Can().Volumes {
			test(tr)
		}
	}
}

// volume makes a volume, which the test deletes.
func (tr *trial) volume(request string) (v group.Volume) {
	tr.Helper()
	tr.retry("CreateVolume", func() (err error) {
		v, err = tr.CreateVolume(tr.ctx(), group.VolumeRequest{ID: request, Size: volumeSize, Labels: map[string]string{"rung-project": "suite"}})
		return err
	})
	tr.Cleanup(func() {
		if now, _ := tr.seen(v.ID); now.Instance != "" {
			const last = 1 << 32
			tr.detach(group.Attachment{Volume: v.ID, Instance: now.Instance, Epoch: last})
		}
		tr.retry("DeleteVolume", func() error { return tr.DeleteVolume(tr.ctx(), v.ID) })
		if _, there := tr.seen(v.ID); there {
			tr.Errorf("the volume %s is deleted, and listed", v.ID)
		}
	})
	return v
}

// seen is a volume as the list has it.
func (tr *trial) seen(id string) (found group.Volume, there bool) {
	tr.Helper()
	tr.retry("Volumes", func() error {
		all, err := tr.Volumes(tr.ctx())
		there = false
		for _, v := range all {
			if v.ID == id {
				found, there = v, true
			}
		}
		return err
	})
	return found, there
}

func (tr *trial) attach(a group.Attachment) {
	tr.Helper()
	tr.retry(fmt.Sprintf("AttachVolume(%v)", a), func() error {
		_, err := tr.AttachVolume(tr.ctx(), a)
		return err
	})
	tr.eventually("the list has the attachment", func() bool {
		v, there := tr.seen(a.Volume)
		return there && v.Instance == a.Instance
	})
}

func (tr *trial) detach(a group.Attachment) {
	tr.Helper()
	tr.retry(fmt.Sprintf("DetachVolume(%v)", a), func() error { return tr.DetachVolume(tr.ctx(), a) })
}

// running makes a machine that runs.
func (tr *trial) running() string {
	tr.Helper()
	id := tr.create(group.Request{Count: 1})[0]
	tr.await(id, group.StateRunning)
	return id
}

func volumesOrWhy(tr *trial) {
	why := tr.NoVolumes()
	switch can := tr.Can().Volumes; {
	case can != (why == nil):
		tr.Errorf("its abilities have volumes: %t; why it has none: %v", can, why)
	case !can:
		_, err := tr.CreateVolume(tr.ctx(), group.VolumeRequest{ID: newID(), Size: volumeSize})
		tr.wants("making a volume", err, group.ErrUnsupported)
	}
}

func volumeMoves(tr *trial) {
	v := tr.volume(newID())
	first, second := tr.running(), tr.running()
	tr.attach(group.Attachment{Volume: v.ID, Instance: first, Epoch: 1})
	tr.attach(group.Attachment{Volume: v.ID, Instance: first, Epoch: 1}) // again
	_, err := tr.AttachVolume(tr.ctx(), group.Attachment{Volume: v.ID, Instance: second, Epoch: 2})
	tr.wants("attaching one that is elsewhere", err, group.ErrInUse)
	tr.wants("deleting one that is attached", tr.DeleteVolume(tr.ctx(), v.ID), group.ErrInUse)
	if now, _ := tr.seen(v.ID); now.Instance != first {
		tr.Errorf("it is on %q, not on %q", now.Instance, first)
	}
	tr.detach(group.Attachment{Volume: v.ID, Instance: first, Epoch: 1})
	tr.attach(group.Attachment{Volume: v.ID, Instance: second, Epoch: 2})
	tr.detach(group.Attachment{Volume: v.ID, Instance: second, Epoch: 2})
	tr.detach(group.Attachment{Volume: v.ID, Instance: second, Epoch: 2}) // again
	_, err = tr.AttachVolume(tr.ctx(), group.Attachment{Volume: v.ID, Instance: unknown, Epoch: 3})
	tr.wants("attaching it to no machine", err, group.ErrNotFound)
	_, err = tr.AttachVolume(tr.ctx(), group.Attachment{Volume: "made-up-volume", Instance: first, Epoch: 3})
	tr.wants("attaching one that does not exist", err, group.ErrNotFound)
	tr.wants("detaching one that does not exist", tr.DetachVolume(tr.ctx(), group.Attachment{Volume: "made-up-volume", Instance: first, Epoch: 3}), group.ErrNotFound)
	if err := tr.DeleteVolume(tr.ctx(), "made-up-volume"); err != nil {
		tr.Error("deleting one that does not exist:", err)
	}
}

func volumeEpochs(tr *trial) {
	v := tr.volume(newID())
	machine := tr.running()
	tr.attach(group.Attachment{Volume: v.ID, Instance: machine, Epoch: 1})
	tr.detach(group.Attachment{Volume: v.ID, Instance: machine, Epoch: 2})
	_, err := tr.AttachVolume(tr.ctx(), group.Attachment{Volume: v.ID, Instance: machine, Epoch: 2})
	tr.wants("attaching with an epoch that is over", err, group.ErrInUse)
	tr.attach(group.Attachment{Volume: v.ID, Instance: machine, Epoch: 4})
	tr.detach(group.Attachment{Volume: v.ID, Instance: machine, Epoch: 3})
	if now, _ := tr.seen(v.ID); now.Instance != machine {
		tr.Error("a call about an earlier attachment has ended a later one")
	}
}

func volumeOutlives(tr *trial) {
	v := tr.volume(newID())
	machine := tr.running()
	tr.attach(group.Attachment{Volume: v.ID, Instance: machine, Epoch: 1})
	if _, err := tr.Delete(tr.ctx(), []string{machine}); err != nil {
		tr.Error(err)
	}
	tr.await(machine, group.StateDeleted)
	tr.detach(group.Attachment{Volume: v.ID, Instance: machine, Epoch: 1})
	next := tr.running()
	tr.attach(group.Attachment{Volume: v.ID, Instance: next, Epoch: 2})
}

func volumeRepeated(tr *trial) {
	request := newID()
	v := tr.volume(request)
	again, err := tr.CreateVolume(tr.ctx(), group.VolumeRequest{ID: request, Size: volumeSize})
	if err != nil || again.ID != v.ID || again.Labels["rung-project"] != "suite" {
		tr.Errorf("again: %+v, %v; first: %+v", again, err, v)
	}
	if now, there := tr.seen(v.ID); !there || now.Request != request || now.Size < volumeSize || now.Labels["rung-project"] != "suite" {
		tr.Errorf("it is listed as %+v, %t", now, there)
	}
	if _, err := tr.CreateVolume(tr.ctx(), group.VolumeRequest{ID: newID()}); err == nil {
		tr.Error("a volume without a size is made")
	}
}
