package objectstest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rungci/rung/internal/sharedstate"
)

// Run is the suite. open makes an empty store.
func Run(t *testing.T, open func(t *testing.T) sharedstate.Objects) {
	cases := map[string]func(t *testing.T, o sharedstate.Objects){
		"an object is as it was written":                     whole,
		"an object that does not exist is missing":           missing,
		"an object is written once":                          once,
		"an object is written if it is as its tag says":      tagged,
		"one of many writers succeeds":                       raced,
		"a list has all names that begin so, sorted":         listed,
		"an object that is removed can be written once more": removed,
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func put(t *testing.T, o sharedstate.Objects, name, content string, when sharedstate.Condition) string {
	t.Helper()
	tag, err := o.Put(t.Context(), name, []byte(content), when)
	if err != nil || tag == "" {
		t.Fatalf("writing %s: the tag %q, %v", name, tag, err)
	}
	return tag
}

func holds(t *testing.T, o sharedstate.Objects, name, want, tag string) {
	t.Helper()
	content, got, err := o.Get(t.Context(), name)
	if err != nil || string(content) != want || got != tag {
		t.Errorf("%s holds %q with the tag %q, %v; it should be %q with %q", name, content, got, err, want, tag)
	}
}

func whole(t *testing.T, o sharedstate.Objects) {
	big := string(bytes.Repeat([]byte{0, 255, '\n'}, 1<<20))
	for name, content := range map[string]string{"a": "x", "log/00001": "", "deep/er/b": big} {
		holds(t, o, name, content, put(t, o, name, content, sharedstate.Condition{}))
	}
	holds(t, o, "a", "y", put(t, o, "a", "y", sharedstate.Condition{}))
}

func missing(t *testing.T, o sharedstate.Objects) {
	if _, _, err := o.Get(t.Context(), "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("getting it: %v", err)
	}
	if _, err := o.Put(t.Context(), "a", []byte("x"), sharedstate.Condition{Tag: `"0123456789abcdef0123456789abcdef"`}); err == nil {
		t.Error("it is written, and should have a tag")
	}
	if err := o.Delete(t.Context(), "a"); err != nil {
		t.Errorf("removing it: %v", err)
	}
	if names, err := o.List(t.Context(), ""); err != nil || len(names) > 0 {
		t.Errorf("there are %v, %v", names, err)
	}
}

func once(t *testing.T, o sharedstate.Objects) {
	tag := put(t, o, "log/1", "first", sharedstate.Condition{Absent: true})
	if _, err := o.Put(t.Context(), "log/1", []byte("second"), sharedstate.Condition{Absent: true}); !errors.Is(err, sharedstate.ErrCondition) {
		t.Errorf("writing it a second time: %v", err)
	}
	holds(t, o, "log/1", "first", tag)
}

func tagged(t *testing.T, o sharedstate.Objects) {
	first := put(t, o, "lease", "1", sharedstate.Condition{Absent: true})
	second := put(t, o, "lease", "2", sharedstate.Condition{Tag: first})
	if first == second {
		t.Error("the tag is the same for other content")
	}
	if _, err := o.Put(t.Context(), "lease", []byte("3"), sharedstate.Condition{Tag: first}); !errors.Is(err, sharedstate.ErrCondition) {
		t.Errorf("writing it with the tag of before: %v", err)
	}
	holds(t, o, "lease", "2", second)
}

func raced(t *testing.T, o sharedstate.Objects) {
	const writers, rounds = 8, 10
	tag := put(t, o, "lease", "0", sharedstate.Condition{})
	for round := range rounds {
		var won, lost atomic.Int32
		var next atomic.Value
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				_, errNew := o.Put(t.Context(), fmt.Sprint("log/", round), []byte{byte(w)}, sharedstate.Condition{Absent: true})
				got, err := o.Put(t.Context(), "lease", fmt.Appendf(nil, "%d of %d", w, round), sharedstate.Condition{Tag: tag})
				if errNew == nil {
					won.Add(1)
				}
				if err == nil {
					lost.Add(1)
					next.Store(got)
				}
			})
		}
		all.Wait()
		if won.Load() > 1 || lost.Load() > 1 {
			t.Fatalf("%d writers have made an object, and %d have replaced another", won.Load(), lost.Load())
		}
		if next.Load() == nil { // a store may tell all of them to try again
			_, tag, _ = o.Get(t.Context(), "lease")
			continue
		}
		tag = next.Load().(string)
	}
}

func listed(t *testing.T, o sharedstate.Objects) {
	var want []string
	for i := range 25 {
		name := fmt.Sprintf("log/%03d", i)
		want = append(want, name)
		put(t, o, name, "x", sharedstate.Condition{})
	}
	put(t, o, "lease", "x", sharedstate.Condition{})
	put(t, o, "snapshot/1", "x", sharedstate.Condition{})
	if names, err := o.List(t.Context(), "log/"); err != nil || !slices.Equal(names, want) {
		t.Errorf("%v, %v", names, err)
	}
}

func removed(t *testing.T, o sharedstate.Objects) {
	put(t, o, "a", "x", sharedstate.Condition{Absent: true})
	if err := o.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	holds(t, o, "a", "y", put(t, o, "a", "y", sharedstate.Condition{Absent: true}))
}
