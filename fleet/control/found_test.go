package control_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/store"
)

func TestAFleetWhoseRecordIsLostKeepsItsVolumes(t *testing.T) {
	t.Parallel()
	inWorld(t, fake.Options{Boot: 10 * time.Second}, withVolumes, func(w *world) {
		first := w.of("a", "web")
		if err := w.fleet.Close(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		w.lose()
		w.open()
		w.until(5*time.Minute, "the volume is found", func() bool { return len(w.fleet.Status().Volumes) == 1 })
		again := w.of("b", "web")
		if again.Volume != first.Volume || again.Instance == first.Instance {
			t.Errorf("it was %s on %s, and is %q on %s: %s", first.Volume, first.Instance, again.Volume, again.Instance, w.fleet.Explain("b"))
		}
		if other := w.of("c", "app"); other.Volume == "" || other.Volume == first.Volume {
			t.Errorf("a job of another project has %q", other.Volume)
		}
	})
}

func TestAFleetWhoseRecordIsLostAsksForNoMachineOfThen(t *testing.T) {
	t.Parallel()
	inWorld(t, fake.Options{Boot: 10 * time.Second}, nil, func(w *world) {
		first := w.of("a", "web")
		if err := w.fleet.Close(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		w.lose()
		time.Sleep(time.Second)
		w.open()
		again := w.of("b", "app")
		if again.Instance == first.Instance {
			t.Errorf("a job of another project is on the machine of before, %s", again.Instance)
		}
		names := map[string]bool{}
		for _, m := range w.cloud.Machines() {
			if names[m.Request] {
				t.Errorf("%s was asked for twice", m.Request)
			}
			names[m.Request] = true
		}
	})
}

// lose deletes the record of the fleet.
func (w *world) lose() {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	w.memory.state, w.memory.machines, w.memory.volumes = store.State{Jobs: map[string]store.Job{}}, map[string]scale.InstanceRecord{}, map[string]scale.VolumeRecord{}
}

func TestAVolumeOfAnotherProjectIsNotTakenForTheOneThatWasAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fake.Options{})
		withVolumes(&w.options)
		w.crossed = true
		w.open()
		defer func() { w.process.kill() }()
		if slot := w.of("a", "web"); slot.Volume != "" {
			t.Errorf("it has %s", slot.Volume)
		}
	})
}
