package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/internal/sharedstate"
)

// The names of values of a fleet, after its prefix.
const (
	headName       = "fleet"
	machinesPrefix = "machines/"
	jobsPrefix     = "jobs/"
	volumesPrefix  = "volumes/"
)

// head is what is known of a fleet beside machines, jobs and volumes.
type head struct {
	Name    string `json:",omitempty"`
	Created uint64 `json:",omitempty"`
}

// shared is a Store in the state that several hosts share. Each machine, job and volume is a value.
type shared struct {
	state   *sharedstate.State
	prefix  string
	folder  string
	more    func() map[string][]byte
	history history

	mu     sync.Mutex
	head   head
	closed bool
}

// Fenced is a Store that another process can take away.
type Fenced interface {
	Store
	// Lost is closed when that has happened. Nothing more is recorded, and nothing must be done to machines.
	Lost() <-chan struct{}
}

// Shared is the store below a prefix of a shared state, which ends in a slash. The history is in a folder of this host. more, which may be nil, returns further values that
// are to be committed with each change, by their names in the state.
func Shared(state *sharedstate.State, prefix, folder string, more func() map[string][]byte) (Store, error) {
	folder = filepath.Join(folder, historyFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("the folder of the fleet: %w", err)
	}
	if more == nil {
		more = func() map[string][]byte { return nil }
	}
	return &shared{state: state, prefix: prefix, folder: filepath.Dir(folder), more: more, history: history{folder: folder}}, nil
}

// ReadShared is what was committed below a prefix of a shared state, as Shared has it.
func ReadShared(state *sharedstate.State, prefix string) (State, error) {
	return (&shared{state: state, prefix: prefix}).Load()
}

// Load implements Store.
func (s *shared) Load() (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := State{Jobs: map[string]Job{}}
	if err := s.read(s.prefix+headName, &s.head); err != nil {
		return State{}, err
	}
	out.Fleet.Name, out.Fleet.Created = s.head.Name, s.head.Created
	for _, name := range s.state.Names(s.prefix + machinesPrefix) {
		var m scale.InstanceRecord
		if err := s.read(name, &m); err != nil {
			return State{}, err
		}
		out.Fleet.Instances = append(out.Fleet.Instances, m)
	}
	for _, name := range s.state.Names(s.prefix + jobsPrefix) {
		var j Job
		if err := s.read(name, &j); err != nil {
			return State{}, err
		}
		out.Jobs[j.Key] = j
	}
	for _, name := range s.state.Names(s.prefix + volumesPrefix) {
		var v scale.VolumeRecord
		if err := s.read(name, &v); err != nil {
			return State{}, err
		}
		out.Fleet.Volumes = append(out.Fleet.Volumes, v)
	}
	return out, nil
}

// read reads a value; one that does not exist changes nothing.
func (s *shared) read(name string, value any) error {
	text, ok := s.state.Get(name)
	if !ok {
		return nil
	}
	if err := json.Unmarshal(text, value); err != nil {
		return fmt.Errorf("%s in the shared state: %w", name, err)
	}
	return nil
}

// Commit implements Store. It waits for a store that does not answer, until the state is lost.
func (s *shared) Commit(c Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	values := map[string][]byte{}
	maps.Copy(values, s.more())
	next := s.head
	if c.Name != "" {
		next.Name = c.Name
	}
	next.Created = max(next.Created, c.Created)
	if next != s.head {
		set(values, s.prefix+headName, next)
	}
	for _, m := range c.Machines {
		set(values, s.prefix+machinesPrefix+m.Request, m)
	}
	for _, request := range c.Gone {
		values[s.prefix+machinesPrefix+request] = nil
	}
	for _, j := range c.Jobs {
		set(values, s.prefix+jobsPrefix+j.Key, j)
	}
	for _, key := range c.Over {
		values[s.prefix+jobsPrefix+key] = nil
	}
	for _, v := range c.Volumes {
		set(values, s.prefix+volumesPrefix+v.Name, v)
	}
	for _, name := range c.Lost {
		values[s.prefix+volumesPrefix+name] = nil
	}
	if err := s.state.Commit(values); err != nil {
		return err
	}
	s.head = next
	return nil
}

func set(values map[string][]byte, name string, value any) {
	values[name], _ = json.Marshal(value) // of what Load reads
}

// Append implements Store.
func (s *shared) Append(entries ...Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	return s.history.append(entries)
}

// History implements Store.
func (s *shared) History(from, to time.Time, each func(Entry) bool) error {
	return ReadHistory(s.folder, from, to, each)
}

// Lost implements Fenced.
func (s *shared) Lost() <-chan struct{} { return s.state.Lost() }

// Close implements Store. The state is closed by whoever has acquired it.
func (s *shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.history.close()
}
