package control_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/schedule"
	"github.com/rungci/rung/fleet/store"
)

// needs are those of a job of a trial.
func (r *trial) needs(key string) scale.Needs {
	if r.tenants == 0 {
		return scale.Needs{}
	}
	sum := fnv.New32()
	_, _ = sum.Write([]byte(key))
	return scale.Needs{Tenant: strconv.Itoa(int(sum.Sum32()) % r.tenants), Volume: true}
}

// reaches fails the test if a job that runs has not its volume, or reaches one of somebody else. A machine that is gone has none.
func (r *trial) reaches(w *worker) {
	if r.tenants == 0 || w.slot.Reason() != "" {
		return
	}
	tenant, pool, has := r.needs(w.key).Tenant, r.options.Scale.Pools[0], false
	exists := slices.Contains(r.exist(), w.slot.Instance)
	for _, v := range r.cloud.Disks() {
		if v.Instance != w.slot.Instance {
			continue
		}
		if v.Labels[control.ProjectLabel] != tenant && !pool.Apart {
			r.t.Errorf("%s of %s is on %s, which has %s of %s", w.key, tenant, w.slot.Instance, v.ID, v.Labels[control.ProjectLabel])
		}
		has = has || w.slot.Volume == "/volumes/"+v.ID && v.Labels[control.ProjectLabel] == tenant
	}
	if w.slot.Volume != "" && exists && !has {
		r.t.Errorf("%s of %s has %s on %s, which is not there: %+v", w.key, tenant, w.slot.Volume, w.slot.Instance, r.cloud.Disks())
	}
}

func (g *gate) CreateVolume(ctx context.Context, r group.VolumeRequest) (group.Volume, error) {
	if g.p.isDead() {
		return group.Volume{}, errDead
	}
	if g.p.w.crossed {
		r.Labels[control.ProjectLabel] = "somebody"
	}
	return g.Group.CreateVolume(ctx, r)
}

// AttachVolume fails the test if the attachment is not on record, or the volume is elsewhere.
func (g *gate) AttachVolume(ctx context.Context, a group.Attachment) (string, error) {
	if g.p.isDead() {
		return "", errDead
	}
	m := g.p.w.memory
	m.mu.Lock()
	known := false
	for _, v := range m.volumes {
		known = known || v.ID == a.Volume && v.Epoch >= a.Epoch
	}
	m.mu.Unlock()
	if !known {
		g.p.w.t.Errorf("%+v is asked for, and is not on record", a)
	}
	for _, v := range g.Disks() {
		if v.ID == a.Volume && v.Instance != "" && v.Instance != a.Instance {
			g.p.w.t.Errorf("%s is to be attached to %s, and is on %s", v.ID, a.Instance, v.Instance)
		}
	}
	return g.Group.AttachVolume(ctx, a)
}

func (g *gate) DetachVolume(ctx context.Context, a group.Attachment) error {
	if g.p.isDead() {
		return errDead
	}
	return g.Group.DetachVolume(ctx, a)
}

func (g *gate) DeleteVolume(ctx context.Context, id string) error {
	if g.p.isDead() {
		return errDead
	}
	return g.Group.DeleteVolume(ctx, id)
}

// withVolumes is a fleet whose machines are for one job at a time, and whose projects have volumes.
func withVolumes(o *control.Options) {
	o.Scale.Pools[0].Volumes = true
	o.Scale.Volumes = scale.Volumes{Max: 3, Size: 1 << 30, Idle: time.Hour}
	o.Policy = classic(schedule.Policy{IdleTime: time.Minute})
	o.RecoverWithin = time.Minute
}

// of waits for a slot for a job of a project.
func (w *world) of(key, project string) *control.Slot {
	w.t.Helper()
	slot, err := w.fleet.Acquire(w.t.Context(), key, control.Job{ID: key, Project: project, Needs: scale.Needs{Tenant: project, Volume: true}}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return slot
}

func TestAVolumeOutlivesMachinesAndGoesInItsTime(t *testing.T) {
	t.Parallel()
	inWorld(t, fake.Options{Boot: 30 * time.Second}, withVolumes, func(w *world) {
		first := w.of("a", "web")
		w.fleet.Release("a", "")
		w.ends(10 * time.Minute)
		second := w.of("b", "web")
		if first.Instance == second.Instance || first.Volume == "" || first.Volume != second.Volume {
			t.Errorf("the first has %q on %s, the second %q on %s", first.Volume, first.Instance, second.Volume, second.Instance)
		}
		if other := w.of("c", "app"); other.Volume == second.Volume || other.Instance == second.Instance {
			t.Errorf("a job of another project has %q on %s", other.Volume, other.Instance)
		}
		w.fleet.Release("b", "")
		w.fleet.Release("c", "")
		w.until(2*time.Hour, "without volumes", func() bool { return len(w.cloud.Disks())+len(w.fleet.Status().Volumes) == 0 })
		if n := len(w.history(store.AttachVolume)); n != 3 {
			t.Errorf("%d attachments are in the history", n)
		}
	})
}

func TestAProcessThatDiesAtAnyRecordLosesNoVolume(t *testing.T) {
	t.Parallel()
	for _, dies := range []fate{diesBefore, diesAfter} {
		for at := 1; ; at++ {
			died := false
			t.Run(fmt.Sprintf("%v record %d", dies, at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { died = diesAt(t, dies, at) })
			})
			if !died {
				break
			}
		}
	}
}

// diesAt lets a process die at a record while three jobs run, and tries the next one. died is whether there was such a record.
func diesAt(t *testing.T, dies fate, at int) (died bool) {
	w := newWorld(t, fake.Options{Boot: 10 * time.Second})
	withVolumes(&w.options)
	w.policy = func() scale.Policy { return classic(schedule.Policy{IdleTime: time.Minute}) }
	w.open()
	defer func() { w.process.kill() }()
	w.process.mu.Lock()
	w.process.fate = func(commit int) fate {
		if commit == at {
			return dies
		}
		return lives
	}
	w.process.mu.Unlock()
	for i, project := range []string{"web", "app", "web"} { // its last job may have lost its process
		key, fleet := strconv.Itoa(i), w.fleet
		go func() {
			if _, err := fleet.Acquire(t.Context(), key, control.Job{ID: key, Needs: scale.Needs{Tenant: project, Volume: true}}, nil); err == nil {
				fleet.Release(key, "")
			}
		}()
		time.Sleep(2 * time.Minute)
	}
	w.process.mu.Lock()
	w.process.fate = nil
	w.process.mu.Unlock()
	if died = w.process.isDead(); died {
		w.restart()
	}
	time.Sleep(3 * time.Minute)
	slot := w.of("last", "web")
	if slot.Volume == "" {
		t.Errorf("dying at record %d: the next job has no volume: %s; %+v", at, w.fleet.Explain("last"), w.fleet.Status().Volumes)
	}
	if n := len(w.cloud.Disks()); n > 2 {
		t.Errorf("dying at record %d: there are %d volumes", at, n)
	}
	w.fleet.Release("last", "")
	w.until(3*time.Hour, "without volumes", func() bool { return len(w.cloud.Disks())+len(w.fleet.Status().Volumes) == 0 })
	return died
}

func TestVolumesGoWithTheFleet(t *testing.T) {
	t.Parallel()
	inWorld(t, fake.Options{}, withVolumes, func(w *world) {
		w.of("a", "web")
		w.fleet.Release("a", "")
		w.fleet.DeleteOnClose()
		w.fleet.DeleteVolumesOnClose()
		if err := w.fleet.Close(w.t.Context()); err != nil || len(w.cloud.Disks()) > 0 || len(w.exist()) > 0 {
			t.Errorf("%v; there are still %v and %v", err, w.cloud.Disks(), w.exist())
		}
	})
}

// mounts are what a fleet does with volumes that are devices, in its order.
type mounts struct {
	mu    sync.Mutex
	log   []string
	fails int // so many attempts to unmount
}

func (m *mounts) add(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, text)
}

func (m *mounts) mount(_ context.Context, on *control.Machine, volume, device string) (string, error) {
	m.add("mount " + volume + " from " + device + " on " + on.Instance)
	return "/mounted/" + volume, nil
}

func (m *mounts) unmount(_ context.Context, on *control.Machine, volume, folder string) error {
	m.add("unmount " + volume + " from " + folder + " on " + on.Instance)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails > 0 {
		m.fails--
		return errors.New("it is used")
	}
	return nil
}

// asDevices is a fleet whose volumes are devices.
func asDevices(m *mounts, o fake.Options) (fake.Options, func(*control.Options)) {
	o.Device = func(volume string) string { return "/dev/" + volume }
	o.Before = func(_ context.Context, c fake.Call) error {
		if c.Name == "AttachVolume" || c.Name == "DetachVolume" {
			m.add(c.Name + " " + c.Instances[0])
		}
		return nil
	}
	return o, func(o *control.Options) {
		withVolumes(o)
		o.Mount, o.Unmount = m.mount, m.unmount
	}
}

func TestADeviceIsMountedBeforeItsJobAndUnmountedBeforeItIsDetached(t *testing.T) {
	t.Parallel()
	m := &mounts{fails: 2}
	o, set := asDevices(m, fake.Options{})
	inWorld(t, o, set, func(w *world) {
		first := w.of("a", "web")
		if first.Volume != "/mounted/volume-1" {
			t.Errorf("the job has its volume in %q", first.Volume)
		}
		w.fleet.Release("a", "")
		w.of("b", "app") // on the same machine, unless another one was made meanwhile
		unmount := "unmount volume-1 from /mounted/volume-1 on fake-0"
		want := []string{"AttachVolume fake-0", "mount volume-1 from /dev/volume-1 on fake-0", unmount, unmount, unmount, "DetachVolume fake-0"}
		if got := m.log[:min(len(m.log), len(want))]; !slices.Equal(got, want) {
			t.Errorf("it did\n%q, want\n%q", m.log, want)
		}
	})
}

func TestAMachineThatEndsIsAskedOnceToUnmount(t *testing.T) {
	t.Parallel()
	m := &mounts{fails: 1}
	o, set := asDevices(m, fake.Options{Deleting: time.Minute})
	inWorld(t, o, set, func(w *world) {
		w.of("a", "web")
		w.fleet.Release("a", "")
		w.ends(time.Hour)
		want := []string{"AttachVolume fake-0", "mount volume-1 from /dev/volume-1 on fake-0", "unmount volume-1 from /mounted/volume-1 on fake-0", "DetachVolume fake-0"}
		if !slices.Equal(m.log, want) {
			t.Errorf("it did\n%q, want\n%q", m.log, want)
		}
	})
}

func TestADeviceThatNothingMountsIsNoVolumeForAJob(t *testing.T) {
	t.Parallel()
	o, _ := asDevices(&mounts{}, fake.Options{})
	inWorld(t, o, withVolumes, func(w *world) {
		if slot := w.of("a", "web"); slot.Volume != "" {
			t.Errorf("the job has its volume in %q", slot.Volume)
		}
	})
}
