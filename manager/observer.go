package manager

import (
	"cmp"
	"slices"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/disk"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/supply"
	"github.com/rungci/rung/steps/event"
)

// Observer is told what a manager does, as it happens; Manager.State is how it is. Its methods are called by many goroutines and must not block.
// Nothing that they are given holds a secret: logs are masked, and of a token there is what people may see.
type Observer interface {
	// Attempted is told of every request to GitLab for an entry.
	Attempted(of Entry, a gitlab.Attempt)
	// Rests is told that an entry asks for no jobs for a while, because GitLab refused it or did not answer.
	Rests(of Entry)
	// Unable is told that an entry cannot run jobs, and why. It asks for none until it can.
	Unable(of Entry, why error)
	// Began is told of a job that is in a slot, and what GitLab says of the time before.
	Began(job Running, waited Waited)
	// Wrote is told what is added to the log of a job. It must not keep the bytes.
	Wrote(job Running, log []byte)
	// Ended is told how a job ended.
	Ended(job Running, end End)
}

// Entry names a [[runners]] of the configuration.
type Entry struct {
	Name     string `json:"name"`
	Token    string `json:"token"` // its first characters
	URL      string `json:"url"`
	SystemID string `json:"system_id"`
	Executor string `json:"executor"` // as the configuration has it: shell, docker, …
}

// Waited is what GitLab says of a job's time in its queue.
type Waited struct {
	InQueue time.Duration
	// Size and Depth are those of the queue; 0 where GitLab does not say.
	Size, Depth int64
	// Running is how many jobs of its project ran on instance runners: "3", "5+", "+Inf".
	Running string
	// Late says that it waited longer than the configuration accepts.
	Late bool
}

// Running is a job that runs.
type Running struct {
	Job      int64          `json:"job"` // its number in GitLab
	Entry    Entry          `json:"runner"`
	Identity event.Identity `json:"identity"`
	// URL is the job's page in GitLab; empty if it cannot be known.
	URL     string         `json:"url,omitempty"`
	Slot    int            `json:"slot"`
	Level   executor.Level `json:"level"`
	Machine string         `json:"machine,omitempty"` // of a provider; empty on this machine, and before there is one
	Began   time.Time      `json:"began"`
	Adopted bool           `json:"adopted"` // from the process before
}

// End is how a job ended.
type End struct {
	State         gitlab.State `json:"state"` // success or failed; canceled if GitLab had ended it before
	FailureReason string       `json:"failure_reason,omitempty"`
	ExitCode      int          `json:"exit_code,omitempty"`
	// Error is what people are told; empty for a success.
	Error string        `json:"error,omitempty"`
	Took  time.Duration `json:"took"`
	// Unreported says that GitLab does not know the end.
	Unreported bool `json:"unreported,omitempty"`
	// Trace is the file with the job's trace; empty where none is kept.
	Trace string `json:"trace,omitempty"`
}

// State is how a manager is.
type State struct {
	SystemID   string        `json:"system_id"`
	Concurrent int           `json:"concurrent"`
	Busy       int           `json:"busy"` // slots
	Draining   bool          `json:"draining"`
	Entries    []EntryStatus `json:"runners"`
	// Removed are entries that are not in the configuration any more, and have jobs or machines that are not at their end.
	Removed []EntryStatus `json:"removed_runners,omitempty"`
	Jobs    []Running     `json:"jobs"`
	// Disk is what is stored here for later jobs; nil where the configuration does not bound it.
	Disk *disk.Status `json:"disk,omitempty"`
	// Disks are the same of other machines, by their addresses or names: of hosts that are reached over SSH, and those of providers that run more than one job.
	Disks map[string]*disk.Status `json:"disks,omitempty"`
}

// EntryStatus is how an entry is.
type EntryStatus struct {
	Entry
	Levels             []executor.Level `json:"levels"` // the first is that of a job that asks for none
	Limit              int              `json:"limit"`  // 0: none
	RequestConcurrency int              `json:"request_concurrency"`
	Running            int              `json:"running"`
	Asking             int              `json:"asking"` // requests for jobs that wait for an answer
	// Contact is when GitLab last answered a request for a job; zero: never.
	Contact time.Time `json:"contact,omitzero"`
	// Unable is why the entry cannot run jobs, and asks for none; empty if it can.
	Unable string `json:"unable,omitempty"`
	// Trouble is why the last request failed; empty if it did not.
	Trouble string `json:"trouble,omitempty"`
	// Machines is how the provider of the entry's machines is; nil where it has none.
	Machines *supply.Status `json:"machines,omitempty"`
	// Resting is until when the entry does not ask; zero if it does.
	Resting time.Time `json:"resting,omitzero"`
}

// Healthy reports whether the entry can run jobs, and GitLab answers it.
func (e EntryStatus) Healthy() bool {
	return !e.Contact.IsZero() && e.Unable == "" && e.Trouble == "" && !e.Resting.After(time.Now())
}

// State is how the manager is now.
func (m *Manager) State() State {
	m.mu.Lock()
	entries, concurrent, running := slices.Clone(m.entries), m.o.Config.Concurrent, map[*entry]int{}
	removed := slices.DeleteFunc(slices.Clone(m.known), func(e *entry) bool { return e.nothing || slices.Contains(entries, e) || again(e) })
	for r := range m.running {
		running[r.entry]++
	}
	if m.config != nil {
		concurrent = m.config.Concurrent
	}
	m.mu.Unlock()
	s := State{SystemID: m.o.SystemID, Concurrent: concurrent, Busy: m.slots.busy(), Draining: m.asking.Err() != nil, Jobs: m.Running(), Disk: m.disk.Status(), Disks: space{m}.elsewhere(entries)}
	for _, e := range entries {
		s.Entries = append(s.Entries, e.status(running[e]))
	}
	for _, e := range removed {
		s.Removed = append(s.Removed, e.status(running[e]))
	}
	return s
}

// Running are the jobs that run now, the oldest first.
func (m *Manager) Running() []Running {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Running, 0, len(m.running))
	for r := range m.running {
		out = append(out, r.running)
	}
	slices.SortFunc(out, func(a, b Running) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Job, b.Job)) })
	return out
}

// named names the entry of a configuration.
func (m *Manager) named(r *config.Runner) Entry {
	return Entry{Name: r.Name, Token: r.Short(), URL: r.URL, SystemID: m.o.SystemID, Executor: r.Executor}
}

func (e *entry) name() Entry { return e.manager.named(e.settings()) }

func (e *entry) status(running int) EntryStatus {
	machines := e.supply.Status()
	e.mu.Lock()
	defer e.mu.Unlock()
	s := EntryStatus{
		Entry: e.manager.named(e.runner), Levels: []executor.Level{e.levels.Default}, Limit: e.runner.Limit, RequestConcurrency: e.runner.RequestConcurrency,
		Running: running, Asking: e.asking, Contact: e.contact, Unable: e.unable, Trouble: e.trouble,
	}
	for _, l := range e.levels.Allowed {
		if l != e.levels.Default {
			s.Levels = append(s.Levels, l)
		}
	}
	s.Machines = machines
	if e.resting.After(time.Now()) {
		s.Resting = e.resting
	}
	return s
}

// Unobserved is an Observer that does nothing, to be embedded by those that want to know of some things only.
type Unobserved struct{}

// Attempted implements Observer.
func (Unobserved) Attempted(Entry, gitlab.Attempt) {}

// Rests implements Observer.
func (Unobserved) Rests(Entry) {}

// Unable implements Observer.
func (Unobserved) Unable(Entry, error) {}

// Began implements Observer.
func (Unobserved) Began(Running, Waited) {}

// Wrote implements Observer.
func (Unobserved) Wrote(Running, []byte) {}

// Ended implements Observer.
func (Unobserved) Ended(Running, End) {}
