package control

import (
	"context"
	"errors"
	"sync"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/scale"
)

// Fleet is machines by demand. Its methods are safe for concurrent use.
type Fleet struct{}

type access struct{}

func (*access) get(context.Context) (group.ConnectInfo, error) {
	return group.ConnectInfo{}, errors.ErrUnsupported
}

type lost struct {
	done chan struct{}
	mu   sync.Mutex
	why  string
}

func (l *lost) reason() string { return l.why }

// Open takes over what the store has, and begins: machines of an earlier process are adopted, and its jobs keep their slots until they are recovered
// (Recover), or RecoverWithin is over. ctx bounds the opening alone.
func Open(ctx context.Context, o Options) (*Fleet, error) { return nil, errors.ErrUnsupported }

// Free estimates how many more jobs with these needs can be reserved for. why is one sentence if there are none.
func (f *Fleet) Free(needs scale.Needs) (n int, why string) { return 0, "" }

// Changed returns a channel that is closed at the next change of anything that Free counts.
func (f *Fleet) Changed() <-chan struct{} { return nil }

// Reserve keeps a place for a job before there is one, and makes no machine. The error is scale.ErrNoCapacity or scale.ErrUnfit. A key that is known is no error.
func (f *Fleet) Reserve(key string, needs scale.Needs) error { return errors.ErrUnsupported }

// Acquire asks for a slot, and waits until its machine is ready. report may be nil; it is told, in a sentence, what the job waits for. A call that is cancelled
// changes nothing: the job waits on until Release, and Acquire can be called again. A machine that fails before it was handed out is replaced by another.
func (f *Fleet) Acquire(ctx context.Context, key string, job Job, report func(string)) (*Slot, error) {
	return nil, errors.ErrUnsupported
}

// Recover gives the slot of a job that an earlier process had acquired. The error is ErrGone where it has lost its machine.
func (f *Fleet) Recover(ctx context.Context, key string) (*Slot, error) {
	return nil, errors.ErrUnsupported
}

// Release gives back what there is of a key: a reservation, a place in the queue, or a slot. fault is why the machine is of no use to jobs, which ends it
// once its other jobs have ended; empty: nothing is wrong with it. A key that is not known is no error.
func (f *Fleet) Release(key, fault string) {}

// Status is the fleet now.
func (f *Fleet) Status() Status { return Status{} }

// Explain says of a job where it is, or why it waits.
func (f *Fleet) Explain(key string) string { return "" }

// Close ends the loop. What is under way goes on until it has ended, or ctx has. Machines and jobs stay for the next process, unless DeleteOnShutdown.
func (f *Fleet) Close(ctx context.Context) error { return nil }
