package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest/storertest"
	"github.com/rungci/rung/executor/usage"
)

// servers are those whose projects have caches here.
var servers = []string{"gitlab.example.com"}

func TestStoredCaches(t *testing.T) {
	root := t.TempDir()
	busy := map[string]bool{}
	c := &Caches{Root: root, Servers: servers, Busy: func(project string) bool { return busy[project] }}
	write := func(file string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	storertest.Run(t, storertest.Case{
		Storer: c, Kind: executor.StoredCache,
		Use: func(number int) func() {
			project := fmt.Sprintf("gitlab.example.com/project-%d", number)
			folder := filepath.Join(root, project, "main", "deps")
			if _, err := os.Stat(filepath.Join(folder, CacheArchive)); err != nil {
				write(filepath.Join(folder, CacheArchive))
				write(filepath.Join(folder, CacheMark))
			}
			busy[project] = true
			Touch(folder)
			return func() { busy[project] = false }
		},
		Foreign: func() (executor.Stored, func() bool) {
			file := filepath.Join(root, "group", "project", "key", CacheArchive) // as gitlab-runner has them
			write(file)
			return executor.Stored{Kind: executor.StoredCache, Place: root, ID: "group/project/key"}, func() bool {
				_, err := os.Stat(file)
				return err == nil
			}
		},
	})
}

func TestACacheWhoseKeyBeginsWithAnotherKeyStays(t *testing.T) {
	root := t.TempDir()
	c := &Caches{Root: root, Servers: servers, Busy: func(string) bool { return false }}
	project := filepath.Join(root, "gitlab.example.com", "project-7")
	for _, key := range []string{"main", "main/deps"} {
		if err := os.MkdirAll(filepath.Join(project, key), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(project, key, CacheArchive), []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ remove, left string }{{"gitlab.example.com/project-7/main", "[gitlab.example.com/project-7/main/deps]"}, {"gitlab.example.com/project-7/main/deps", "[]"}} {
		if err := c.Discard(t.Context(), executor.Stored{Place: root, ID: step.remove}); err != nil {
			t.Error(err)
		}
		stock, err := c.Stored(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, it := range stock.Things {
			left = append(left, it.ID)
		}
		if got := fmt.Sprint(left); got != step.left {
			t.Errorf("without %s there are %s", step.remove, got)
		}
	}
	if _, err := os.Stat(project); err == nil {
		t.Error("the folder of a project without caches stays")
	}
}

func TestALinkThatAJobHasPutAmongTheCachesLeadsNowhere(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	victim := filepath.Join(elsewhere, "key", CacheArchive)
	if err := os.MkdirAll(filepath.Dir(victim), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "gitlab.example.com"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(root, "gitlab.example.com", "project-7")); err != nil {
		t.Skip(err)
	}
	c := &Caches{Root: root, Servers: servers, Busy: func(string) bool { return false }}
	if stock, err := c.Stored(t.Context()); err != nil || len(stock.Things) > 0 {
		t.Errorf("%+v %v", stock, err)
	}
	if err := c.Discard(t.Context(), executor.Stored{Place: root, ID: "gitlab.example.com/project-7/key"}); err == nil {
		t.Error("it is followed")
	}
	if _, err := os.Stat(victim); err != nil {
		t.Error(err)
	}
}

// shelf is a storer of a test.
type shelf struct {
	folder string
	things []executor.Stored
	looks  int
	broken error
	stuck  error // of Discard
}

func (s *shelf) Stored(context.Context) (*executor.Stock, error) {
	s.looks++
	return &executor.Stock{Folder: s.folder, Things: slices.Clone(s.things)}, s.broken
}

func (s *shelf) Discard(_ context.Context, what executor.Stored) error {
	if s.stuck != nil {
		return s.stuck
	}
	s.things = slices.DeleteFunc(s.things, func(it executor.Stored) bool { return it.ID == what.ID })
	return nil
}

// left names what is on the shelf.
func (s *shelf) left() (names string) {
	for _, it := range s.things {
		names += it.ID
	}
	return names
}

// item was used so many hours ago.
func item(id string, size int64, hours int) executor.Stored {
	return executor.Stored{Kind: executor.StoredImage, Place: "here", ID: id, Name: id, Size: size, Used: time.Now().Add(-time.Duration(hours) * time.Hour)}
}

func inUse(it executor.Stored) executor.Stored {
	it.InUse = true
	return it
}

func TestWhatIsRemoved(t *testing.T) {
	three := []executor.Stored{item("a", 30, 1), item("b", 30, 3), item("c", 30, 2)}
	for _, c := range []struct {
		name    string
		limits  Limits
		things  []executor.Stored
		stuck   error
		left    string
		waiting string
		trouble string
	}{
		{name: "nothing within the budget", limits: Limits{Budget: 90}, things: three, left: "abc"},
		{name: "what was not used for longest", limits: Limits{Budget: 60}, things: three, left: "ac"},
		{name: "as much as it takes", limits: Limits{Budget: 31}, things: three, left: "a"},
		{name: "nothing that is in use", limits: Limits{Budget: 60}, things: []executor.Stored{item("a", 30, 1), inUse(item("b", 30, 3)), item("c", 30, 2)}, left: "ab"},
		{
			name: "no job is asked for when the rest is in use", limits: Limits{Budget: 20}, things: []executor.Stored{item("a", 30, 1), inUse(item("b", 30, 3))},
			left: "b", waiting: "files for later jobs take 30B of the 20B that disk.budget allows",
		},
		{name: "what somebody uses meanwhile stays", limits: Limits{Budget: 80}, things: three, stuck: usage.ErrInUse, left: "abc", waiting: "disk.budget"},
		{
			name: "what cannot be removed is said", limits: Limits{Budget: 80}, things: three, stuck: errors.New("no such luck"), left: "abc", waiting: "disk.budget",
			trouble: "image b cannot be removed: no such luck",
		},
		{name: "nothing while there is space", limits: Limits{KeepFree: 1}, things: three, left: "abc"},
		{
			name: "all that is on a disk without space", limits: Limits{KeepFree: 1 << 60}, things: three, left: "",
			waiting: "are kept free (disk.keep_free): there is nothing left that may be removed",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &shelf{folder: t.TempDir(), things: slices.Clone(c.things), stuck: c.stuck}
			var log bytes.Buffer
			d := New(Options{Limits: func() Limits { return c.limits }, Storers: func() []executor.Storer { return []executor.Storer{s} }, Log: slog.New(slog.NewTextHandler(&log, nil))})
			room := d.Room(t.Context())
			status := d.Status()
			if got := s.left(); got != c.left {
				t.Errorf("%q is left, not %q", got, c.left)
			}
			if room != (c.waiting == "") || !strings.Contains(status.Waiting, c.waiting) {
				t.Errorf("there is room: %t, waiting for %q", room, status.Waiting)
			}
			if !strings.Contains(status.Trouble, c.trouble) || (status.Trouble == "") != (c.trouble == "") {
				t.Errorf("the trouble is %q", status.Trouble)
			}
			if removed := status.Removed[executor.StoredImage]; removed.Things != len(c.things)-len(s.things) || removed.Bytes != 30*int64(removed.Things) || status.Total() != 30*int64(len(s.things)) {
				t.Errorf("%+v is removed, %d bytes are left", removed, status.Total())
			}
			if got := strings.Count(log.String(), "no jobs are taken"); got != 1 && c.waiting != "" || got > 0 && c.waiting == "" {
				t.Errorf("the log says %d times that no jobs are taken\n%s", got, log.String())
			}
		})
	}
}

func TestTwoLevelsOfOneEngineCountOnce(t *testing.T) {
	one, other := &shelf{things: []executor.Stored{item("a", 30, 1)}}, &shelf{things: []executor.Stored{item("a", 30, 1)}}
	d := New(Options{Limits: func() Limits { return Limits{Budget: 40} }, Storers: func() []executor.Storer { return []executor.Storer{one, other} }, Log: slog.New(slog.DiscardHandler)})
	if !d.Room(t.Context()) || d.Status().Total() != 30 {
		t.Errorf("%d bytes are used", d.Status().Total())
	}
}

func TestWithoutLimitsNothingIsLookedAt(t *testing.T) {
	s := &shelf{things: []executor.Stored{item("a", 30, 1)}}
	d := New(Options{Limits: func() Limits { return Limits{} }, Storers: func() []executor.Storer { return []executor.Storer{s} }, Log: slog.New(slog.DiscardHandler)})
	if !d.Room(t.Context()) || s.looks > 0 || d.Status() != nil {
		t.Errorf("it was looked at %d times, and is %+v", s.looks, d.Status())
	}
}

func TestWhenItIsLookedAt(t *testing.T) {
	s := &shelf{things: []executor.Stored{inUse(item("a", 30, 1))}}
	limits := Limits{Budget: 100}
	d := New(Options{Limits: func() Limits { return limits }, Storers: func() []executor.Storer { return []executor.Storer{s} }, Log: slog.New(slog.DiscardHandler)})
	for _, step := range []struct {
		name  string
		do    func()
		looks int
		room  bool
	}{
		{"first", func() {}, 1, true},
		{"not again by itself", func() { d.next = time.Time{} }, 1, true},
		{"after a job", func() { d.Changed(); d.next = time.Time{} }, 2, true},
		{"but not too often", func() { d.Changed() }, 2, true},
		{"with other limits at once", func() { limits.Budget = 20 }, 3, false},
		{"again while jobs wait", func() { s.things[0].InUse = false; d.next = time.Time{} }, 4, true},
	} {
		step.do()
		if room := d.Room(t.Context()); room != step.room || s.looks != step.looks {
			t.Errorf("%s: there is room: %t, and it was looked at %d times", step.name, room, s.looks)
		}
	}
}

func TestAnEngineThatDoesNotAnswerIsSaid(t *testing.T) {
	broken, fine := &shelf{broken: errors.New("the engine does not answer")}, &shelf{things: []executor.Stored{item("a", 30, 1)}}
	d := New(Options{Limits: func() Limits { return Limits{Budget: 20} }, Storers: func() []executor.Storer { return []executor.Storer{broken, fine} }, Log: slog.New(slog.DiscardHandler)})
	if !d.Room(t.Context()) || fine.left() != "" || !strings.Contains(d.Status().Trouble, "the engine does not answer") {
		t.Errorf("%q is left, the trouble is %q", fine.left(), d.Status().Trouble)
	}
}
