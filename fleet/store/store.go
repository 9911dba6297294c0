// Package store keeps what a fleet must know after its process has ended, and what people ask about later.
//
//	Commit ──> fleet.journal    machines and jobs: one line for each decision, on the disk before anything of it is done
//	Append ──> history/DAY.jsonl    what was decided and what became of it: for `explain`, `cost` and `record`
//
// Both are files of lines. A decision is one line, so it is there as a whole or not at all. The history can be read by anybody at any time, beside a
// process that writes it. Nothing here is a secret: credentials of machines are asked for again.
package store

import (
	"time"

	"github.com/rungci/rung/fleet/scale"
)

// Store is what control keeps a fleet in. Its methods are safe for concurrent use.
type Store interface {
	// Load is what was committed. It is called once, before all others.
	Load() (State, error)
	// Commit keeps a change, all of it or nothing, and returns when it will be there after a loss of power.
	Commit(Change) error
	// Append adds to the history. What it has taken may be lost with the power, and never with the process.
	Append(entries ...Entry) error
	// History calls each with what was appended with a time in [from, to), in the order of appending, until it returns false. A zero time is no bound.
	History(from, to time.Time, each func(Entry) bool) error
	// Close gives the store free for others.
	Close() error
}

// State is a fleet at rest.
type State struct {
	Fleet scale.Record
	Jobs  map[string]Job // by key; those that have a machine
	// Lost says, for people, what of the state was unreadable; empty: nothing. Machines that are not in it are found in the lists of their groups.
	Lost string
}

// Change is what a decision changes.
type Change struct {
	Name     string                 `json:",omitempty"` // of the fleet; once, with the first
	Created  uint64                 `json:",omitempty"` // of scale.Record
	Machines []scale.InstanceRecord `json:",omitempty"` // that are new, or different
	Gone     []string               `json:",omitempty"` // requests of machines that are not in the fleet any more
	Volumes  []scale.VolumeRecord   `json:",omitempty"` // that are new, or different
	Lost     []string               `json:",omitempty"` // names of volumes that are not in the fleet any more
	Jobs     []Job                  `json:",omitempty"` // that have got a machine
	Over     []string               `json:",omitempty"` // keys of jobs that have none any more
}

// Job is a job that has a machine.
type Job struct {
	Key     string
	ID      string      `json:",omitempty"` // for people: its number in GitLab
	Project string      `json:",omitempty"`
	Needs   scale.Needs `json:",omitzero"`
	Request string      // the machine's
	Asked   time.Time   // when it began to wait
	Placed  time.Time
}

// Entry is one thing that happened.
type Entry struct {
	At   time.Time
	Kind Kind
	// Pool, Request and Instance are those of the machine that it is about; empty: none, or the instance is not known.
	Pool     string `json:",omitempty"`
	Request  string `json:",omitempty"`
	Instance string `json:",omitempty"`
	// Why is one sentence for people.
	Why string `json:",omitempty"`
	// Key, JobID, Project, Slot and Needs are those of the job that it is about; Key is empty if there is none.
	Key     string      `json:",omitempty"`
	JobID   string      `json:",omitempty"`
	Project string      `json:",omitempty"`
	Slot    int         `json:",omitempty"`
	Needs   scale.Needs `json:",omitzero"`
	// Began is when what ends with this entry began: Place and GaveUp, when the job began to wait; Ended and Over, when it was placed; Ready and Gone, when the machine was
	// asked for.
	Began time.Time `json:",omitzero"`
	// Asked is when the job of Ended and Over began to wait.
	Asked time.Time `json:",omitzero"`
	// Price and SuspendedPrice of an hour, Billing and Slots are those of the machine of Create, Ready and Gone; Uses is how many jobs it has had: Gone.
	Price          float64       `json:",omitempty"`
	SuspendedPrice float64       `json:",omitempty"`
	Billing        scale.Billing `json:",omitzero"`
	Slots          int           `json:",omitempty"`
	Uses           int           `json:",omitempty"`
	// Volume is the name of the volume that it is about, or that the job has: whose it is. Began is when that was asked for: CreateVolume to DeleteVolume.
	Volume string `json:",omitempty"`
}

// Kind is what an Entry is about.
type Kind string

// The kinds. Create to Place are decisions; the rest is what became of them.
const (
	Create  Kind = "create"  // a machine is asked for
	Delete  Kind = "delete"  // a machine is ended; repeated calls are not repeated here
	Drain   Kind = "drain"   // a machine finishes its jobs, and takes no more
	Suspend Kind = "suspend" // a machine is idle, and is kept for later
	Resume  Kind = "resume"  // it runs again
	Place   Kind = "place"   // a job has got a slot
	Ended   Kind = "ended"   // a job has lost its machine
	Over    Kind = "over"    // a job has given its slot back
	GaveUp  Kind = "gave up" // a job has stopped waiting for a slot, or was refused one
	Ready   Kind = "ready"   // a machine takes jobs
	Gone    Kind = "gone"    // a machine does not exist any more
	Failed  Kind = "failed"  // a call of a group failed

	CreateVolume Kind = "create volume" // a volume is asked for
	AttachVolume Kind = "attach volume" // it is brought to a machine
	DetachVolume Kind = "detach volume" // it is taken from there
	DeleteVolume Kind = "delete volume" // it is ended
)
