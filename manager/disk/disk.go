// Package disk keeps what is stored on a machine for later jobs within a budget. Before a job is asked for, what was not used for longest is
// removed until there is room; where nothing is left to remove, no job is asked for.
//
//	Disk.Room ──> executor.Storer.Stored, Discard      images and volumes of an engine, kept projects in folders, by the levels
//	                                                   caches in a folder, by Caches
package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/usage"
	"github.com/rungci/rung/internal/bytesize"
	"github.com/rungci/rung/internal/scarcity"
)

const (
	// lookEvery is the least time between two looks at what is stored. An engine counts files for that, so it is longer where that takes long:
	// patience times as long as the look.
	lookEvery = time.Second
	patience  = 20
	// lookTime bounds a look, with what is removed.
	lookTime = 5 * time.Minute
)

// Limits are the operator's. 0 is no limit.
type Limits struct {
	// Budget is how many bytes may be stored.
	Budget int64
	// KeepFree is how many bytes stay free on each disk that something is stored on.
	KeepFree int64
}

// Options are those of a Disk.
type Options struct {
	Limits func() Limits
	// Storers are what counts.
	Storers func() []executor.Storer
	// Here leaves out what is on other machines.
	Here bool
	// Folders are on disks that KeepFree is about, too.
	Folders []string
	Log     *slog.Logger
}

// Disk is what is stored on a machine. Its methods are safe for concurrent use.
type Disk struct {
	o Options

	looking sync.Mutex // one at a time; others wait for what it finds
	limits  Limits
	storers int
	next    time.Time            // no look before
	on      map[string]host.Host // the folders of other machines than this

	mu      sync.Mutex
	changed bool // since the last look, a job has begun or ended
	status  Status
}

// Status is how a Disk was when it was looked at last.
type Status struct {
	Budget   int64 `json:"budget,omitempty"`    // bytes; 0: no limit
	KeepFree int64 `json:"keep_free,omitempty"` // bytes; 0: no limit
	// Used are the bytes that are stored, by kind, and Free those that are free, by folder.
	Used map[string]int64 `json:"used"`
	Free map[string]int64 `json:"free"`
	// Removed is what this process has removed, by kind.
	Removed map[string]Removed `json:"removed,omitempty"`
	// Waiting is why no jobs are asked for; empty if there is room.
	Waiting string `json:"waiting,omitempty"`
	// Trouble is why something that is stored is not counted, or not removed; empty if all is.
	Trouble string    `json:"trouble,omitempty"`
	Looked  time.Time `json:"looked"`
}

// Removed is what was removed.
type Removed struct {
	Things int   `json:"things"`
	Bytes  int64 `json:"bytes"`
}

// Total are the bytes that are stored.
func (s *Status) Total() (n int64) {
	for _, bytes := range s.Used {
		n += bytes
	}
	return n
}

// New makes a Disk.
func New(o Options) *Disk { return &Disk{o: o, status: Status{Removed: map[string]Removed{}}} }

// Changed says that a job has begun or ended.
func (d *Disk) Changed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = true
}

// Status is how it was lately; nil where there are no limits.
func (d *Disk) Status() *Status {
	if d.o.Limits() == (Limits{}) {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.status
	s.Used, s.Free, s.Removed = maps.Clone(s.Used), maps.Clone(s.Free), maps.Clone(s.Removed)
	return &s
}

// Room reports whether a job may be asked for, after it has removed what must go.
func (d *Disk) Room(ctx context.Context) bool {
	l := d.o.Limits()
	if l == (Limits{}) {
		return true
	}
	d.looking.Lock()
	defer d.looking.Unlock()
	storers := d.o.Storers()
	if l != d.limits || len(storers) != d.storers || d.due(ctx, l) {
		d.look(ctx, l, storers)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status.Waiting == ""
}

// due reports whether it is time for a look. The caller holds d.looking.
func (d *Disk) due(ctx context.Context, l Limits) bool {
	if time.Now().Before(d.next) {
		return false
	}
	d.mu.Lock()
	look, folders := d.changed || d.status.Waiting != "", slices.Collect(maps.Keys(d.status.Free))
	d.mu.Unlock()
	if look {
		return true
	}
	for _, folder := range folders {
		if free, known := d.free(ctx, folder); known && free < l.KeepFree {
			return true
		}
	}
	return false
}

// free is how much is free on the disk of a folder, if that can be known. The caller holds d.looking.
func (d *Disk) free(ctx context.Context, folder string) (bytes int64, known bool) {
	on := d.on[folder]
	if on == nil {
		return scarcity.Free(folder)
	}
	bytes, known, err := on.Files().Free(ctx, folder)
	return bytes, known && err == nil
}

// thing is one that is stored.
type thing struct {
	executor.Stored
	in executor.Storer
}

// look finds out what is stored, and removes what must go. The caller holds d.looking.
func (d *Disk) look(life context.Context, l Limits, storers []executor.Storer) {
	ctx, cancel := context.WithTimeout(life, lookTime)
	defer cancel()
	began := time.Now()
	d.mu.Lock()
	d.changed = false
	d.mu.Unlock()
	things, folders, trouble := d.list(ctx, storers)
	total, used := int64(0), map[string]int64{executor.StoredImage: 0, executor.StoredVolume: 0, executor.StoredCache: 0, executor.StoredProject: 0}
	for _, t := range things {
		total, used[t.Kind] = total+t.Size, used[t.Kind]+t.Size
	}
	over := func() bool { return l.Budget > 0 && total > l.Budget }
	low := func(folder string) bool {
		free, known := d.free(ctx, folder)
		return known && free < l.KeepFree
	}
	for _, t := range things {
		if t.InUse || !over() && !low(t.Folder) {
			continue
		}
		err := t.in.Discard(ctx, t.Stored)
		if errors.Is(err, usage.ErrInUse) {
			continue
		}
		if err != nil {
			trouble = append(trouble, fmt.Errorf("%s %s cannot be removed: %w", t.Kind, t.Name, err))
			continue
		}
		d.o.Log.Info("removed to free disk space", "kind", t.Kind, "name", t.Name, "size", bytesize.Format(t.Size), "used", t.Used.Format(time.RFC3339))
		total, used[t.Kind] = total-t.Size, used[t.Kind]-t.Size
		d.removed(t)
	}
	waiting := ""
	if over() {
		waiting = fmt.Sprintf("files for later jobs take %s of the %s that disk.budget allows, and the rest is in use; wait for jobs to end, or raise disk.budget", bytesize.Format(total), bytesize.Format(l.Budget))
	}
	free := map[string]int64{}
	for _, folder := range folders {
		n, known := d.free(ctx, folder)
		if !known {
			continue
		}
		if free[folder] = n; n < l.KeepFree && waiting == "" {
			waiting = fmt.Sprintf("the disk of %s has %s free, and %s are kept free (disk.keep_free): there is nothing left that may be removed; free some space", folder, bytesize.Format(n), bytesize.Format(l.KeepFree))
		}
	}
	if life.Err() != nil {
		return // nobody wants to know any more
	}
	d.limits, d.storers, d.next = l, len(storers), time.Now().Add(max(lookEvery, patience*time.Since(began)))
	d.found(Status{Budget: l.Budget, KeepFree: l.KeepFree, Used: used, Free: free, Waiting: waiting, Trouble: message(errors.Join(trouble...)), Looked: began})
}

// list is what is stored, the least recently used first, and on which disks. The caller holds d.looking.
func (d *Disk) list(ctx context.Context, storers []executor.Storer) (things []thing, folders []string, trouble []error) {
	folders, d.on = slices.Clone(d.o.Folders), map[string]host.Host{}
	add := func(folder string, on host.Host) {
		if folders = append(folders, folder); on != nil {
			d.on[folder] = on
		}
	}
	type key struct{ place, kind, id string }
	seen := map[key]bool{}
	for _, in := range storers {
		stock, err := in.Stored(ctx)
		if err != nil {
			trouble = append(trouble, fmt.Errorf("what is stored cannot be counted: %w", err))
			continue
		}
		if d.o.Here && stock.On != nil {
			continue
		}
		if stock.Folder != "" {
			add(stock.Folder, stock.On)
		}
		for _, it := range stock.Things {
			k := key{it.Place, it.Kind, it.ID}
			if seen[k] {
				continue
			}
			seen[k] = true
			if it.Folder == "" {
				it.Folder = stock.Folder
			} else {
				add(it.Folder, stock.On)
			}
			things = append(things, thing{it, in})
		}
	}
	slices.SortStableFunc(things, func(a, b thing) int { return cmp.Or(a.Used.Compare(b.Used), cmp.Compare(a.ID, b.ID)) })
	slices.Sort(folders)
	return things, slices.Compact(folders), trouble
}

func (d *Disk) removed(t thing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.status.Removed[t.Kind]
	d.status.Removed[t.Kind] = Removed{r.Things + 1, r.Bytes + t.Size}
}

// found remembers what was found, and says what has changed for people.
func (d *Disk) found(s Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.status
	s.Removed = before.Removed
	d.status = s
	switch {
	case s.Waiting != "" && before.Waiting == "":
		d.o.Log.Error("no jobs are taken: there is not enough disk space", "why", s.Waiting)
	case s.Waiting == "" && before.Waiting != "":
		d.o.Log.Info("there is enough disk space again: jobs are taken")
	}
	if s.Trouble != "" && s.Trouble != before.Trouble {
		d.o.Log.Warn("cannot measure or free disk space", "error", s.Trouble)
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
