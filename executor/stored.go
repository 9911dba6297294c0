package executor

import (
	"context"
	"time"

	"github.com/rungci/rung/executor/host"
)

// Storer keeps things on a machine that later jobs use again, such as the images and volumes of an engine. It names what this program has made or pulled,
// and nothing else. Its methods are safe for concurrent use.
type Storer interface {
	// Stored lists what is there. Things that do not exist any more, and those that have become somebody else's, are not.
	Stored(ctx context.Context) (*Stock, error)
	// Discard removes a thing. The error is usage.ErrInUse while a job has it, or somebody else; nothing has changed then. A thing that is not there is no error.
	Discard(ctx context.Context, what Stored) error
}

// Stock is what a Storer has.
type Stock struct {
	// On is the machine; nil is this one.
	On host.Host
	// Folder is where it is on the machine, to find out how much space its disk has; empty is not known.
	Folder string
	Things []Stored
}

// Stored is a thing that is kept for later jobs.
type Stored struct {
	Kind   string    // "image", "volume", "cache" or "project"
	Place  string    // what has it. Two storers may name the same thing: then Place, Kind and ID are the same
	ID     string    // within Place
	Name   string    // for people
	Size   int64     // bytes. What things share, as the layers of images, counts for each of them
	Used   time.Time // when a job had it last
	InUse  bool      // a job has it now, or somebody else
	Folder string    // as Stock.Folder, of this thing; empty is that of the stock
}

// The kinds.
const (
	StoredImage   = "image"
	StoredVolume  = "volume"
	StoredCache   = "cache"
	StoredProject = "project" // a kept project folder that is no volume
)
