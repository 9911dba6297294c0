package usage

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var image = Key{Place: "unix:///run/docker.sock", Kind: "image", ID: "sha256:1"}

func TestWhatAJobHasIsNotRemoved(t *testing.T) {
	b := New(filepath.Join(t.TempDir(), "uses"))
	if err := b.Add(image, "busybox:1"); err != nil {
		t.Fatal(err)
	}
	first, second := b.Use(image), b.Use(image)
	first()
	first() // twice is once
	if err := b.Remove(image, func(Thing) error { t.Error("it is removed"); return nil }); !errors.Is(err, ErrInUse) {
		t.Errorf("while a job has it, removing it gives %v", err)
	}
	second()
	broken := errors.New("the engine does not answer")
	if err := b.Remove(image, func(Thing) error { return broken }); !errors.Is(err, broken) || !b.Has(image) {
		t.Errorf("%v, and it is on record: %t", err, b.Has(image))
	}
	if err := b.Remove(image, func(it Thing) error {
		if !slices.Equal(it.Names, []string{"busybox:1"}) {
			t.Errorf("its names are %q", it.Names)
		}
		return nil
	}); err != nil || b.Has(image) {
		t.Errorf("%v, and it is on record: %t", err, b.Has(image))
	}
	if err := b.Remove(image, func(Thing) error { t.Error("it is removed again"); return nil }); err != nil {
		t.Error(err)
	}
}

func TestNothingIsRemovedWhileSomebodyLooks(t *testing.T) {
	b := New(t.TempDir())
	if err := b.Add(image); err != nil {
		t.Fatal(err)
	}
	release := b.Hold()
	removed := make(chan error)
	go func() { removed <- b.Remove(image, func(Thing) error { return nil }) }()
	select {
	case err := <-removed:
		t.Fatalf("it is removed meanwhile: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	done := b.Use(image) // it was found
	release()
	if err := <-removed; !errors.Is(err, ErrInUse) {
		t.Errorf("what was found is removed: %v", err)
	}
	done()
}

func TestTheNextProcessKnowsTheOrder(t *testing.T) {
	dir := t.TempDir()
	b := New(dir)
	var keys []Key
	for _, id := range []string{"a", "b", "c"} {
		k := Key{Place: "here", Kind: "volume", ID: id}
		keys = append(keys, k)
		if err := b.Add(k); err != nil {
			t.Fatal(err)
		}
		past := time.Now().Add(-time.Hour)
		if err := os.Chtimes(b.file(k), past, past.Add(time.Duration(len(keys))*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	b.Use(keys[0])() // the first one is now the newest
	if err := b.Add(image); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "damaged.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := New(dir).List("here")
	if err != nil {
		t.Fatal(err)
	}
	var order string
	for _, it := range all {
		order += it.ID
	}
	if order != "bca" {
		t.Errorf("the least recently used first, they are %q", order)
	}
	if err := b.Add(image, "one"); err != nil {
		t.Fatal(err)
	}
	if err := b.Add(image, "two", "one"); err != nil {
		t.Fatal(err)
	}
	if all, err = b.List(image.Place); err != nil || len(all) != 1 || !slices.Equal(all[0].Names, []string{"one", "two"}) {
		t.Errorf("%+v %v", all, err)
	}
}

func TestNoBookRemembersNothing(t *testing.T) {
	var b *Book
	b.Hold()()
	b.Use(image)()
	if err := errors.Join(b.Add(image), b.Forget(image), b.Remove(image, func(Thing) error { return errors.New("called") })); err != nil || b.Has(image) || b.InUse(image) {
		t.Error(err)
	}
	if all, err := b.List(image.Place); err != nil || all != nil {
		t.Error(all, err)
	}
}

func TestAThingIsMeasuredOnceAfterEachUse(t *testing.T) {
	b := New(t.TempDir())
	if err := b.Add(image); err != nil {
		t.Fatal(err)
	}
	measured := 0
	size := func() int64 {
		t.Helper()
		all, err := b.List(image.Place)
		if err != nil || len(all) != 1 {
			t.Fatalf("%v %v", all, err)
		}
		return b.Size(all[0], func() int64 { measured++; return int64(measured) })
	}
	if one, again := size(), size(); one != 1 || again != 1 {
		t.Errorf("it is measured %d times", measured)
	}
	time.Sleep(10 * time.Millisecond)
	done := b.Use(image)
	if size() != 1 {
		t.Error("it is measured while a job has it")
	}
	done()
	if size() != 2 {
		t.Error("it is not measured after a job had it")
	}
}
