package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestAShortJobIsNotSlowedByGarbageCollection(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	defer spared.Store(nil)
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	if collect("local"); percent() != gcLocal { // and stays so
		t.Errorf("local: %d instead of %d", percent(), gcLocal)
	}
	for name, want := range map[string]int{"serve": gcFirst, "builtin": gcFirst, "run": gcStart, "": gcStart} {
		if collect(name); percent() != want {
			t.Errorf("%q: %d instead of %d", name, percent(), want)
		}
		const looks = 500 // 5 s
		for range looks {
			if runtime.GC(); percent() == gcPercent {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got := percent(); got != gcPercent {
			t.Errorf("%q: %d after a collection, instead of %d", name, got, gcPercent)
		}
	}
}
