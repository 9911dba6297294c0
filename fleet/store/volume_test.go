package store_test

import (
	"testing"
	"time"

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
