package store

import (
	"errors"
	"io"
	"time"
)

// Open opens the store in a folder, which is made if it does not exist. One process at a time can: the error is ErrInUse while another one does.
func Open(folder string) (Store, error) { return nil, errors.ErrUnsupported }

// ErrInUse says that another process has the store.
var ErrInUse = errors.New("another process manages this fleet")

// ReadHistory is Store.History of a folder that another process may have open.
func ReadHistory(folder string, from, to time.Time, each func(Entry) bool) error {
	return errors.ErrUnsupported
}

// Cost is what a project has cost.
type Cost struct {
	Project string // empty: what machines cost while they had no job
	Jobs    int
	Busy    time.Duration // of slots
	Cost    float64       // in the currency of the prices
}

// Costs shares out what machines cost that are in a history, by the time that their slots had jobs: those of projects by cost, and last what was idle. Machines
// that exist still count until now.
func Costs(now time.Time, entries []Entry) []Cost { return nil }

// WriteLoad writes the jobs of a history as CSV that `rung fleet simulate` reads, and returns how many there were.
func WriteLoad(w io.Writer, entries []Entry) (int, error) { return 0, errors.ErrUnsupported }
