package store_test

import (
	"testing"
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/store"
)

func TestVolumesCostTheirProjects(t *testing.T) {
	at := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	bill := &store.Bill{}
	for _, e := range []store.Entry{
		{At: at, Kind: store.CreateVolume, Volume: "1", Began: at, Price: 0.5},
		{At: at, Kind: store.CreateVolume, Volume: "2", Began: at, Price: 0.5},
		{At: at.Add(time.Hour), Kind: store.Place, Key: "a", Project: "web", Volume: "1"},
		{At: at.Add(4 * time.Hour), Kind: store.DeleteVolume, Volume: "1", Began: at, Price: 0.5},
	} {
		bill.Add(e)
	}
	got := bill.Costs(at.Add(2*time.Hour), at.Add(10*time.Hour))
	if len(got) != 2 || got[0].Project != "web" || got[0].Cost != 1 || got[1].Cost != 4 {
		t.Errorf("%+v", got)
	}
}

func TestVolumesAreInTheJournal(t *testing.T) {
	folder := t.TempDir()
	s, err := store.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(); err != nil {
		t.Fatal(err)
	}
	keep := scale.VolumeRecord{Name: "1", Request: "f-v1", ID: "vol-1", State: scale.VolumeAttached, Epoch: 7, Machine: "f-2", Instance: "i-2", Folder: "/volumes/vol-1", Users: []string{"job"}}
	for _, c := range []store.Change{{Name: "f", Volumes: []scale.VolumeRecord{keep, {Name: "2"}}}, {Lost: []string{"2"}}} {
		if err := s.Commit(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second reads what the first has written as a whole
		if s, err = store.Open(folder); err != nil {
			t.Fatal(err)
		}
		state, err := s.Load()
		if got := state.Fleet.Volumes; err != nil || len(got) != 1 || got[0].Epoch != 7 || got[0].Folder != keep.Folder || got[0].Users[0] != "job" {
			t.Errorf("%+v, %v", got, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
