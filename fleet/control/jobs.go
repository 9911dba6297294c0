package control

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/store"
)

// job is who wants a slot, or has one. The fields are the Fleet's lock's.
type job struct {
	Job
	key     string
	asked   time.Time // zero: it is reserved for
	since   time.Time // it is known
	placed  time.Time
	request string // of the machine, once that is decided
	slot    *Slot  // once that is recorded
	handed  bool   // Acquire or Recover has returned it
	old     bool   // an earlier process had it, and nobody has recovered it
	over    bool
	changed chan struct{} // closed at the next change
}

// note puts the job into an entry.
func (j *job) note(e *store.Entry) {
	e.Key, e.JobID, e.Project, e.Needs, e.Asked = j.key, j.ID, j.Project, j.Needs, j.asked
}

// change wakes those who wait for the job. The caller holds the lock.
func (j *job) change() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// lost is the end of a slot.
type lost struct {
	done chan struct{}
	mu   sync.Mutex
	why  string
}

func newLost() *lost { return &lost{done: make(chan struct{})} }

func (l *lost) end(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why == "" {
		l.why = why
		close(l.done)
	}
}

func (l *lost) reason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// Free estimates how many more jobs with these needs can be reserved for. why is one sentence if there are none.
func (f *Fleet) Free(needs scale.Needs) (n int, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ready, possible, err := f.scale.Room(f.clock.Now(), needs)
	switch {
	case f.closing:
		return 0, ErrClosed.Error()
	case err != nil:
		return 0, err.Error()
	case f.storeErr != nil:
		return 0, "decisions cannot be recorded: " + f.storeErr.Error()
	case ready+possible <= 0:
		return 0, f.limits()
	}
	return ready + possible, ""
}

// Reserve keeps a place for a job before there is one, and makes no machine. The error is scale.ErrNoCapacity or scale.ErrUnfit. A key that is known is no error.
func (f *Fleet) Reserve(key string, needs scale.Needs) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing {
		return ErrClosed
	}
	if f.jobs[key] != nil {
		return nil
	}
	now := f.clock.Now()
	if err := f.scale.Reserve(now, key, needs); err != nil {
		return err
	}
	f.jobs[key] = &job{key: key, Job: Job{Needs: needs}, since: now, changed: make(chan struct{})}
	f.kick()
	return nil
}

// ask has a job wait for a slot. The caller holds the lock.
func (f *Fleet) ask(key string, of Job) (*job, error) {
	j := f.jobs[key]
	switch {
	case f.closing:
		return nil, ErrClosed
	case j != nil && !j.asked.IsZero():
		return j, nil
	}
	now := f.clock.Now()
	f.replaced(now, of)
	err := f.scale.Ask(now, key, of.Needs)
	j = &job{key: key, Job: of, since: now, asked: now, changed: make(chan struct{})}
	if err != nil {
		delete(f.jobs, key)
		f.gaveUp(now, j, err.Error())
		f.kick()
		return nil, err
	}
	f.jobs[key] = j
	f.follow(now)
	f.kick()
	return j, nil
}

// reportInterval is how often whoever waits is told why, if that has changed.
const reportInterval = 10 * time.Second

// Acquire asks for a slot, and waits until its machine is ready. report may be nil; it is told, in a sentence, what the job waits for. A call that is cancelled
// changes nothing: the job waits on until Release, and Acquire can be called again. A machine that fails before it was handed out is replaced by another.
func (f *Fleet) Acquire(ctx context.Context, key string, of Job, report func(string)) (*Slot, error) {
	f.mu.Lock()
	j, err := f.ask(key, of)
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	told := ""
	for {
		f.mu.Lock()
		slot, changed, over, closing, waits, why := j.slot, j.changed, j.over, f.closing, f.scale.Waits(key), f.scale.ExplainJob(f.clock.Now(), key)
		f.mu.Unlock()
		switch {
		case over:
			return nil, ErrReleased
		case closing:
			return nil, ErrClosed
		case slot != nil && f.answers(ctx, slot) && f.hand(j, slot):
			return slot, nil
		case waits && report != nil && why != told: // it may have a machine already, which is being recorded
			report(why)
			told = why
		}
		pause := reportInterval
		if slot != nil {
			pause = time.Second // its machine did not answer: it is tried again until it has failed
		}
		select {
		case <-changed:
		case <-f.clock.After(pause):
		case <-f.life.Done():
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// hand says that a slot is used from now on. It is false if the job has lost it.
func (f *Fleet) hand(j *job, slot *Slot) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if j.slot != slot || j.over || f.closing {
		return false
	}
	j.handed, j.old = true, false
	return true
}

// placed gives a job its slot. The caller holds the lock.
func (f *book) placed(a scale.Action) {
	j, m := f.jobs[a.Key], f.machines[a.Request]
	if j == nil || m == nil || j.over || j.request != a.Request {
		return // it was released meanwhile, or has lost the machine: that is told next
	}
	j.slot = &Slot{Machine: m.public(), Key: a.Key, Number: a.Slot, Waited: a.Waited, Volume: f.volumes[a.Volume].Folder, lost: newLost()}
	j.change()
}

// lost ends a job whose machine is gone. One that nobody has begun to use waits for another. The caller holds the lock.
func (f *book) lost(a scale.Action) {
	j := f.jobs[a.Key]
	if j == nil || j.over {
		return
	}
	if j.slot != nil {
		j.slot.lost.end(a.Why)
	}
	if !j.handed && !j.old && !f.closing {
		j.slot = nil
		now := f.clock.Now()
		if f.scale.Ask(now, a.Key, j.Needs) == nil {
			f.follow(now)
			f.kick()
			j.change()
			return
		}
	}
	j.over = true
	j.change()
	delete(f.jobs, a.Key)
}

// Recover gives the slot of a job that an earlier process had acquired. The error is ErrGone where it has lost its machine.
func (f *Fleet) Recover(ctx context.Context, key string) (*Slot, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch j := f.jobs[key]; {
	case f.closing:
		return nil, ErrClosed
	case j == nil || j.slot == nil:
		return nil, ErrGone
	default:
		j.handed, j.old = true, false
		return j.slot, nil
	}
}

// Release gives back what there is of a key: a reservation, a place in the queue, or a slot. fault is why the machine is of no use to jobs, which ends it
// once its other jobs have ended; empty: nothing is wrong with it. A key that is not known is no error.
func (f *Fleet) Release(key, fault string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if j := f.jobs[key]; j != nil {
		f.release(f.clock.Now(), j, fault)
	}
}

// replaced gives back what an earlier process had of a job that asks again: it had not begun to run there. The caller holds the lock.
func (f *book) replaced(now time.Time, of Job) {
	for _, j := range f.jobs {
		if j.old && of.ID != "" && j.ID == of.ID && j.Project == of.Project {
			f.log.Info("a job of the previous process never used its machine and asks for another; its slot is free again", "job", j.ID, "instance", j.slot.Instance)
			f.release(now, j, "")
		}
	}
}

// release is Release of a job. The caller holds the lock.
func (f *book) release(now time.Time, j *job, fault string) {
	key := j.key
	if j.request != "" {
		if fault != "" {
			f.scale.Retire(now, j.request, fault)
		}
		e := store.Entry{At: now, Kind: store.Over, Request: j.request, Began: j.placed, Why: fault}
		if m := f.machines[j.request]; m != nil {
			e.Pool, e.Instance = m.rec.Pool, m.rec.Instance
		}
		j.note(&e)
		f.entries = append(f.entries, e)
		f.pending.over(key)
	} else if !j.asked.IsZero() {
		f.gaveUp(now, j, f.scale.Shortage(key))
	}
	f.scale.Release(now, key)
	f.follow(now)
	if j.slot != nil {
		j.slot.lost.end("the job has given its slot back")
	}
	j.over = true
	j.change()
	delete(f.jobs, key)
	f.kick()
}

// gaveUp notes a job that ends without having had a slot. The caller holds the lock.
func (f *book) gaveUp(now time.Time, j *job, why string) {
	e := store.Entry{At: now, Kind: store.GaveUp, Began: j.asked, Why: why}
	j.note(&e)
	f.entries = append(f.entries, e)
}

// adopt takes over the jobs of an earlier process.
func (f *book) adopt(now time.Time, known map[string]store.Job) {
	for _, request := range f.requestsOf(func(*machine) bool { return true }) {
		m := f.machines[request]
		for number, key := range m.rec.Jobs {
			if key == "" {
				continue
			}
			was := known[key]
			f.jobs[key] = &job{
				key: key, Job: Job{ID: was.ID, Project: was.Project, Needs: was.Needs}, asked: was.Asked, since: was.Asked, placed: was.Placed, request: request, old: true,
				slot: &Slot{Machine: m.public(), Key: key, Number: number, lost: newLost()}, changed: make(chan struct{}),
			}
			if was.Asked.IsZero() {
				f.jobs[key].asked, f.jobs[key].since, f.jobs[key].placed = now, now, now
			}
		}
	}
	for key := range known {
		if f.jobs[key] == nil {
			f.pending.over(key)
		}
	}
}

// giveUp releases the jobs of an earlier process that nobody has recovered.
func (f *Fleet) giveUp() {
	select {
	case <-f.clock.After(f.o.RecoverWithin):
	case <-f.life.Done():
		return
	}
	f.mu.Lock()
	var left []string
	for key, j := range f.jobs {
		if j.old {
			left = append(left, key)
		}
	}
	f.mu.Unlock()
	for _, key := range left {
		f.log.Warn(fmt.Sprintf("nobody has recovered a job of an earlier process within %s; its slot is free again", f.o.RecoverWithin), "key", key)
		f.Release(key, "")
	}
}
