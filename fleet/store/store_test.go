package store_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/simulate/scenario"
	"github.com/rungci/rung/fleet/store"
	"github.com/rungci/rung/fleet/store/storetest"
)

var start = storetest.Start

// opened is the store of a folder, with what was in it.
func opened(t *testing.T, folder string) (store.Store, store.State) {
	t.Helper()
	s, err := store.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	state, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return s, state
}

func commit(t *testing.T, s store.Store, changes ...store.Change) {
	t.Helper()
	for _, c := range changes {
		if err := s.Commit(c); err != nil {
			t.Fatal(err)
		}
	}
}

func machine(n int, jobs ...string) scale.InstanceRecord { return storetest.Machine(n, jobs...) }

func committed(t *testing.T, s store.Store) store.State { return storetest.Fill(t, s) }

// A process that is killed while it writes leaves a part of a line.
func TestAChangeIsThereAsAWholeOrNotAtAll(t *testing.T) {
	folder := t.TempDir()
	s, _ := opened(t, folder)
	want := committed(t, s)
	before, err := os.ReadFile(filepath.Join(folder, "fleet.journal"))
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, store.Change{Created: 9, Gone: []string{"f-1", "f-3"}, Over: []string{"job-1"}})
	_ = s.Close()
	after, err := os.ReadFile(filepath.Join(folder, "fleet.journal"))
	if err != nil {
		t.Fatal(err)
	}
	for cut := len(before); cut < len(after); cut += 7 {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "fleet.journal"), after[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s, got := opened(t, folder)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("cut at %d: %s", cut, diff)
		}
		_ = s.Close()
	}
}

func TestDamageIsReportedAndTheRestIsKept(t *testing.T) {
	damages := map[string]func(text []byte) []byte{
		"a byte is another one": func(text []byte) []byte {
			i := strings.Index(string(text), `"f-2"`)
			text[i+1] ^= 1
			return text
		},
		"zeros after a loss of power": func(text []byte) []byte { return append(text, append(make([]byte, 4096), '\n')...) },
		"a line of something else":    func(text []byte) []byte { return append([]byte("<html>\n"), text...) },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, "fleet.journal")
			s, _ := opened(t, folder)
			committed(t, s)
			_ = s.Close()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			damaged := damage(text)
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			s, got := opened(t, folder)
			if !strings.Contains(got.Lost, path) || len(got.Fleet.Instances) != 2 || got.Jobs["job-1"].ID != "1" {
				t.Errorf("%+v", got)
			}
			if kept, err := os.ReadFile(path + ".damaged"); err != nil || string(kept) != string(damaged) {
				t.Errorf("the damaged file was not kept: %v", err)
			}
			commit(t, s, store.Change{Created: 4, Machines: []scale.InstanceRecord{machine(4, "")}})
			_ = s.Close()
			if _, got := opened(t, folder); got.Lost != "" || len(got.Fleet.Instances) != 3 {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestTheJournalDoesNotGrowForEver(t *testing.T) {
	folder := t.TempDir()
	s, _ := opened(t, folder)
	reason := strings.Repeat("x", 40_000)
	largest := int64(0)
	for i := range 200 {
		m := machine(1, "")
		m.Reason = fmt.Sprint(reason, i)
		commit(t, s, store.Change{Created: 1, Machines: []scale.InstanceRecord{m}})
		info, err := os.Stat(filepath.Join(folder, "fleet.journal"))
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, info.Size())
	}
	if largest > 2<<20 {
		t.Errorf("the journal of one machine had %d bytes", largest)
	}
	_ = s.Close()
	if _, got := opened(t, folder); !strings.HasSuffix(got.Fleet.Instances[0].Reason, "199") {
		t.Error("the last change is lost")
	}
}

func read(t *testing.T, folder string, from, to time.Time) (whys string) {
	t.Helper()
	if err := store.ReadHistory(folder, from, to, func(e store.Entry) bool { whys += e.Why + " "; return true }); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(whys)
}

func TestTheHistoryIsReadByTimeBesideWhoWritesIt(t *testing.T) {
	folder := t.TempDir()
	s, _ := opened(t, folder)
	for day := range 4 {
		for hour := range 2 {
			at := start.AddDate(0, 0, day).Add(time.Duration(hour) * time.Hour)
			if err := s.Append(store.Entry{At: at, Kind: store.Create, Why: fmt.Sprintf("%d.%d", day, hour)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	day := func(n int) time.Time { return start.AddDate(0, 0, n) }
	for _, c := range []struct {
		from, to time.Time
		want     string
	}{
		{time.Time{}, time.Time{}, "0.0 0.1 1.0 1.1 2.0 2.1 3.0 3.1"},
		{day(1), day(2), "1.0 1.1"},
		{day(2).Add(time.Minute), time.Time{}, "2.1 3.0 3.1"},
		{time.Time{}, day(0).Add(time.Minute), "0.0"},
	} {
		if got := read(t, folder, c.from, c.to); got != c.want {
			t.Errorf("%s to %s: %s", c.from, c.to, got)
		}
	}
	_ = s.Close()
	files, _ := filepath.Glob(filepath.Join(folder, "history", "*"))
	if len(files) != 4 || filepath.Base(files[0]) != "2026-03-02-000.jsonl" {
		t.Errorf("%v", files)
	}
	file, err := os.OpenFile(files[3], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"At":"2026-03-05T`); err != nil { // killed while it wrote
		t.Fatal(err)
	}
	_ = file.Close()
	s, _ = opened(t, folder)
	if err := s.Append(store.Entry{At: day(3), Why: "next"}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, folder, day(3), time.Time{}); got != "3.0 3.1 next" {
		t.Error(got)
	}
}

func TestTheOldestHistoryGoesFirst(t *testing.T) {
	folder := t.TempDir()
	s, _ := opened(t, folder)
	for day := range 100 {
		if err := s.Append(store.Entry{At: start.AddDate(0, 0, day), Why: fmt.Sprint(day)}); err != nil {
			t.Fatal(err)
		}
	}
	got := strings.Fields(read(t, folder, time.Time{}, time.Time{}))
	if len(got) != 64 || got[0] != "36" || got[63] != "99" {
		t.Errorf("%d: %v", len(got), got)
	}
}

// A machine with two slots at 1.20 an hour, for two hours of which one was paid for without need: a job of one project has a slot for an hour, and one of another
// project for half an hour.
func TestCostIsSharedByTheTimeInSlots(t *testing.T) {
	at := func(m int) time.Time { return start.Add(time.Duration(m) * time.Minute) }
	hourly := scale.Billing{Granularity: time.Hour}
	entries := []store.Entry{
		{At: at(0), Kind: store.Create, Request: "f-1", Price: 1.2, Billing: hourly, Slots: 2},
		{At: at(10), Kind: store.Place, Request: "f-1", Key: "a", Project: "one"},
		{At: at(20), Kind: store.Place, Request: "f-1", Key: "b", Project: "two"},
		{At: at(50), Kind: store.Ended, Request: "f-1", Key: "b", Project: "two"},
		{At: at(70), Kind: store.Over, Request: "f-1", Key: "a", Project: "one"},
		{At: at(80), Kind: store.Gone, Request: "f-1", Began: at(0), Price: 1.2, Billing: hourly, Slots: 2},
		{At: at(80), Kind: store.Create, Request: "f-2", Price: 0.6, Slots: 1}, // exists still
		{At: at(90), Kind: store.Place, Request: "f-2", Key: "c", Project: "two"},
	}
	var b store.Bill
	for _, e := range entries {
		b.Add(e)
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	// f-1 costs 2.40 in 80 minutes, that is 0.015 for a minute of a slot; f-2 0.01.
	want := []store.Cost{
		{Project: "one", Jobs: 1, Busy: time.Hour, Cost: 60 * 0.015},
		{Project: "two", Jobs: 2, Busy: 60 * time.Minute, Cost: 30*0.015 + 30*0.01},
		{Busy: 70*time.Minute + 10*time.Minute, Cost: 70*0.015 + 10*0.01},
	}
	if diff := cmp.Diff(want, b.Costs(time.Time{}, at(120)), near); diff != "" {
		t.Error(diff)
	}
	want = []store.Cost{
		{Project: "one", Jobs: 1, Busy: 20 * time.Minute, Cost: 20 * 0.015},
		{Project: "two", Jobs: 1, Busy: 10 * time.Minute, Cost: 10 * 0.015},
		{Busy: 10 * time.Minute, Cost: 10 * 0.015},
	}
	if diff := cmp.Diff(want, b.Costs(at(40), at(60)), near); diff != "" {
		t.Error(diff)
	}
}

func TestSuspendedTimeHasAPriceOfItsOwn(t *testing.T) {
	start := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	var b store.Bill
	for _, e := range []store.Entry{
		{At: at(0), Kind: store.Create, Request: "f-1", Price: 6, SuspendedPrice: 0.6, Slots: 1},
		{At: at(10), Kind: store.Place, Request: "f-1", Key: "a", Project: "one"},
		{At: at(20), Kind: store.Over, Request: "f-1", Key: "a", Project: "one"},
		{At: at(20), Kind: store.Suspend, Request: "f-1"},
		{At: at(80), Kind: store.Resume, Request: "f-1"},
		{At: at(80), Kind: store.Place, Request: "f-1", Key: "b", Project: "one"},
		{At: at(90), Kind: store.Over, Request: "f-1", Key: "b", Project: "one"},
		{At: at(90), Kind: store.Suspend, Request: "f-1"},
		{At: at(150), Kind: store.Gone, Request: "f-1", Began: at(0), Price: 6, SuspendedPrice: 0.6, Slots: 1},
		{At: at(150), Kind: store.Create, Request: "f-2", Price: 6, Slots: 1}, // sleeps still, and that costs nothing
		{At: at(160), Kind: store.Suspend, Request: "f-2"},
	} {
		b.Add(e)
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	// f-1 runs 30 minutes at 0.10, and sleeps 120 at 0.01; f-2 runs 10.
	want := []store.Cost{{Project: "one", Jobs: 2, Busy: 20 * time.Minute, Cost: 2}, {Busy: 20 * time.Minute, Cost: 10*0.10 + 120*0.01 + 10*0.10}}
	if diff := cmp.Diff(want, b.Costs(time.Time{}, at(300)), near); diff != "" {
		t.Error(diff)
	}
	want = []store.Cost{{Cost: 30 * 0.01}}
	if diff := cmp.Diff(want, b.Costs(at(30), at(60)), near); diff != "" {
		t.Error(diff)
	}
}

func TestARecordedLoadIsOneThatTheSimulatorReads(t *testing.T) {
	var text strings.Builder
	w := store.NewLoadWriter(&text)
	for i, n := range []scale.Needs{{}, {Shape: scale.Shape{CPUs: 1.5, Memory: 4 << 30, Disk: 1 << 20, GPUs: 2, Arch: "arm64", OS: "linux"}, Spot: scale.OnlySpot}, {Spot: scale.NoSpot}} {
		asked := start.Add(time.Duration(i) * time.Minute)
		w.Add(store.Entry{At: asked.Add(90 * time.Second), Kind: store.Over, Asked: asked, Began: asked.Add(30 * time.Second), Needs: n})
		w.Add(store.Entry{At: asked, Kind: store.Place})
		w.Add(store.Entry{At: asked, Kind: store.GaveUp, Began: asked})
	}
	if w.GaveUp != 3 {
		t.Errorf("%d jobs gave up", w.GaveUp)
	}
	if n, err := w.Flush(); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	load, from, err := scenario.ParseLoad("load.csv", []byte(text.String()))
	if err != nil || len(load) != 3 || !from.Equal(start.Truncate(24*time.Hour)) {
		t.Fatalf("%v, %v, %v\n%s", load, from, err, text.String())
	}
	want := scale.Needs{Shape: scale.Shape{CPUs: 1.5, Memory: 4 << 30, Disk: 1 << 20, GPUs: 2, Arch: "arm64", OS: "linux"}, Spot: scale.OnlySpot}
	if got := load[1]; got.Run != time.Minute || got.At != 8*time.Hour+time.Minute || got.Needs != want || load[2].Needs.Spot != scale.NoSpot {
		t.Errorf("%+v", load)
	}
}

func BenchmarkCommit(b *testing.B) {
	s, err := store.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Load(); err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		if err := s.Commit(store.Change{Created: uint64(i), Machines: []scale.InstanceRecord{machine(i%1000, "job")}}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAStoreIsReadBesideWhoHasItOpen(t *testing.T) {
	folder := t.TempDir()
	if got, err := store.Read(folder); err != nil || len(got.Fleet.Instances) != 0 {
		t.Fatalf("an empty folder has %+v, %v", got, err)
	}
	s, _ := opened(t, folder)
	want := committed(t, s)
	got, err := store.Read(folder)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	path := filepath.Join(folder, "fleet.journal")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := append([]byte("nothing\n"), text...)
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Read(folder); err != nil || len(got.Fleet.Instances) != len(want.Fleet.Instances) {
		t.Errorf("with a damaged line: %+v, %v", got, err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, damaged) {
		t.Errorf("reading has changed the file: %v", err)
	}
}
