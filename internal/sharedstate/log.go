package sharedstate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	logFolder      = "log/"
	snapshotFolder = "snapshot/"
	// A snapshot is written after minEntries entries, once those have snapshotFactor times its size, or are many: maxEntries, and one more for each perEntry
	// bytes of it. Who takes over reads entries one by one, and a store may be one that does not like a lot of objects.
	minEntries     = 64
	snapshotFactor = 2
	minGrown       = 1 << 20
	maxEntries     = 500
	perEntry       = 64 << 10
)

// errTaken says that the next entry was written by another process.
var errTaken = errors.New("the next entry of the log is somebody else's")

// entry is a change in the log. Its id tells a process whether it was written by itself.
type entry struct {
	ID     string            `json:"id"`
	Holder string            `json:"holder"`
	Set    map[string][]byte `json:"set,omitempty"` // nil: removed
}

// snapshot is all values.
type snapshot struct {
	Values map[string][]byte `json:"values"`
}

// numbered is the name of an object of a folder; names sort as their numbers.
func numbered(folder string, n uint64) string { return fmt.Sprintf("%s%020d", folder, n) }

func numberOf(name string) (uint64, bool) {
	n, err := strconv.ParseUint(path.Base(name), 10, 64)
	return n, err == nil && strings.Contains(name, "/")
}

// load reads the newest snapshot, and the log after it.
func (s *State) load(ctx context.Context) error {
	names, err := retried(ctx, s, func(ctx context.Context) ([]string, error) { return s.o.Objects.List(ctx, snapshotFolder) })
	if err != nil {
		return err
	}
	if len(names) > 0 {
		name := names[len(names)-1]
		n, ok := numberOf(name)
		if !ok {
			return fmt.Errorf("there is an object %s, which no manager has written; remove it", name)
		}
		object, err := s.get(ctx, name)
		if err != nil {
			return err
		}
		var all snapshot
		if err := s.seal.open(name, object, &all); err != nil {
			return err
		}
		s.base, s.next, s.size = n, n, len(object)
		s.apply(all.Values)
	}
	s.next++
	return s.follow(ctx)
}

// follow reads the log to its end.
func (s *State) follow(ctx context.Context) error {
	for ; ; s.next++ {
		name := numbered(logFolder, s.next)
		object, err := s.get(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			if object, err = s.missing(ctx, name); err == nil && object == nil {
				return nil
			}
		}
		if err != nil {
			return err
		}
		var e entry
		if err := s.seal.open(name, object, &e); err != nil {
			return err
		}
		s.grown += len(object)
		s.apply(e.Set)
	}
}

// missing looks for an entry that was not there a moment ago: nil if the log ends there. One that only later ones exist of is lost, and what it said with it.
func (s *State) missing(ctx context.Context, name string) ([]byte, error) {
	names, err := retried(ctx, s, func(ctx context.Context) ([]string, error) { return s.o.Objects.List(ctx, logFolder) })
	if err != nil {
		return nil, err
	}
	later := slices.DeleteFunc(names, func(name string) bool { n, ok := numberOf(name); return !ok || n <= s.next })
	if len(later) == 0 {
		return nil, nil
	}
	object, err := s.get(ctx, name) // whoever had the state may have written both just now
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the object %s is missing, and %s, which is later, exists: restore it from a backup or a version that the store keeps; to begin without any state, remove all objects, and end machines and jobs by hand", name, later[0])
	}
	return object, err
}

func (s *State) get(ctx context.Context, name string) ([]byte, error) {
	return retried(ctx, s, func(ctx context.Context) ([]byte, error) {
		object, _, err := s.o.Objects.Get(ctx, name)
		return object, err
	})
}

// retried asks the store until it answers, or the state is lost.
func retried[T any](ctx context.Context, s *State, ask func(context.Context) (T, error)) (T, error) {
	for {
		limited, cancel := s.limited(ctx)
		got, err := ask(limited)
		cancel()
		if err == nil || errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
			return got, err
		}
		if !s.pause(retryPause) {
			return got, errors.Join(s.Err(), err)
		}
	}
}

func (s *State) apply(changes map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, value := range changes {
		s.total += len(value) - len(s.values[name])
		if value == nil {
			delete(s.values, name)
		} else {
			s.values[name] = value
		}
	}
}

// append writes the next entry, and tries again until that is there or the state is lost. The error is errTaken if it is somebody else's.
func (s *State) append(changes map[string][]byte) error {
	name := numbered(logFolder, s.next)
	e := entry{ID: rand.Text(), Holder: s.o.Name, Set: changes}
	object, err := s.seal.close(name, e)
	if err != nil {
		return err
	}
	for told := false; ; {
		if s.overdue() || s.Err() != nil {
			return s.Err()
		}
		err := s.put(name, object, e.ID)
		if err == nil || errors.Is(err, errTaken) {
			if err == nil && s.overdue() { // it is there, and nobody may act on it any more
				err = s.Err()
			}
			if err != nil {
				return err
			}
			break
		}
		if !told {
			s.o.Log.Error("cannot write the shared state; no new jobs or machines until it works. Running jobs continue. Check the object store, and this host's connection and credentials", "error", err)
			told = true
		}
		s.pause(retryPause)
	}
	s.apply(changes)
	s.next++
	s.grown += len(object)
	return nil
}

// put writes an entry, or finds out that it was written by a call that had no answer.
func (s *State) put(name string, object []byte, id string) error {
	ctx, cancel := s.limited(context.Background())
	defer cancel()
	_, err := s.o.Objects.Put(ctx, name, object, Condition{Absent: true})
	if !errors.Is(err, ErrCondition) {
		return err
	}
	found, _, err := s.o.Objects.Get(ctx, name)
	if err != nil {
		return err
	}
	var e entry
	if err := s.seal.open(name, found, &e); err != nil || e.ID != id {
		return errTaken
	}
	return nil
}

// compact writes a snapshot when the log is long, and removes what the one before it had made superfluous: a process that reads meanwhile finds all. Failures
// change nothing, and it is tried again with the next entry.
func (s *State) compact() {
	last := s.next - 1
	entries := int(last - s.base)
	large, many := s.grown >= max(minGrown, snapshotFactor*s.size), entries >= maxEntries+s.size/perEntry
	if entries < minEntries || !large && !many || s.Err() != nil {
		return
	}
	s.mu.Lock()
	all := snapshot{Values: make(map[string][]byte, len(s.values))}
	for name, value := range s.values {
		all.Values[name] = value
	}
	s.mu.Unlock()
	name := numbered(snapshotFolder, last)
	object, err := s.seal.close(name, all)
	if err != nil {
		return
	}
	ctx, cancel := s.limited(s.life)
	defer cancel()
	if _, err := s.o.Objects.Put(ctx, name, object, Condition{Absent: true}); err != nil && !errors.Is(err, ErrCondition) {
		s.o.Log.Warn("a snapshot of the shared state cannot be written; its log grows until one can", "error", err)
		return
	}
	before := s.base
	s.base, s.size, s.grown = last, len(object), 0
	s.busy.Go(func() { s.remove(before) })
}

// remove removes entries and snapshots that are not needed any more.
func (s *State) remove(before uint64) {
	for _, folder := range []string{logFolder, snapshotFolder} {
		names, err := s.o.Objects.List(s.life, folder)
		for _, name := range names {
			if n, ok := numberOf(name); err == nil && ok && (n < before || folder == logFolder && n == before) {
				err = s.o.Objects.Delete(s.life, name)
			}
		}
		if err != nil && s.life.Err() == nil {
			s.o.Log.Warn("old objects of the shared state cannot be removed; they only take space", "error", err)
		}
	}
}
