package sharedstate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// LeaseName is the object that says who has the state. Its text is a Claim.
const LeaseName = "lease"

const (
	// A lease is renewed renewals times in its time, and each call of the store may take a callPart of it.
	renewals = 4
	callPart = 4
	// Others wait a spare-th more than a lease's time: clocks of two hosts do not run equally fast, and its holder needs a moment to stop.
	spare = 4
	// sealed is what a lease has sealed, so that another key is noticed before anything is taken.
	sealed = "rung"
)

// errNoClaim is about an object that is not what a manager has written: an empty or a damaged one.
var errNoClaim = errors.New("the object " + LeaseName + " is not a lease")

// Claim is what the lease says, as JSON. It is for people, too, and holds no secret.
type Claim struct {
	Holder   string        `json:"holder"`
	Name     string        `json:"name"`    // of the holder, for people
	Session  string        `json:"session"` // of the process
	Count    uint64        `json:"count"`   // of its renewals
	Lease    time.Duration `json:"lease"`   // nanoseconds
	Released bool          `json:"released,omitempty"`
	Seal     []byte        `json:"seal"`
}

// patience is how long others wait since they have seen the lease change.
func (c *Claim) patience() time.Duration { return c.Lease + c.Lease/spare }

// lease is this process's claim, as it was written last.
type lease struct {
	Claim
	tag string
}

// deadline is until when a lease holds, by both clocks of this host: one stands still while the host sleeps, and the other can be set.
type deadline struct{ from time.Time }

func (d deadline) left(lease time.Duration) time.Duration {
	now := time.Now()
	return lease - max(now.Sub(d.from), now.Round(0).Sub(d.from.Round(0)))
}

// take waits until the lease can be taken, and takes it.
func (s *State) take(ctx context.Context) error {
	check, err := s.seal.close(LeaseName, sealed)
	if err != nil {
		return err
	}
	s.lease.Claim = Claim{Holder: s.o.Holder, Name: s.o.Name, Session: rand.Text(), Lease: s.o.Lease, Seal: check}
	var seen time.Time // when the lease became what it is
	last, told := "", false
	for {
		found, tag, err := s.readLease(ctx)
		switch {
		case errors.Is(err, ErrKey), ctx.Err() != nil:
			return err
		case err != nil:
			last = "" // it may have changed meanwhile
			s.o.OnWait(Waiting{Err: err})
			switch {
			case told:
			case errors.Is(err, errNoClaim):
				s.o.Log.Error("the lease of the shared state cannot be read; this manager waits until it can. If no other manager has the state, remove that object", "error", err)
				told = true
			default:
				s.o.Log.Error("the shared state cannot be reached; this manager waits until it can. Check the object store, and this host's connection and credentials", "error", err)
				told = true
			}
		case found == nil, found.Released, found.Holder == s.o.Holder, last == tag && time.Since(seen) > found.patience():
			if s.claimOnce(ctx, Condition{Absent: found == nil, Tag: tag}) {
				return nil
			}
			last = ""
		case last != tag:
			if last == "" {
				s.o.Log.Info("another manager has the shared state; this one waits, and takes over when it is silent", "manager", found.Name, "lease", found.Lease)
			}
			last, seen, told = tag, time.Now(), false
			s.o.OnWait(Waiting{Name: found.Name, Until: seen.Add(found.patience())})
		}
		select {
		case <-time.After(s.o.Lease / (2 * renewals)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readLease is what the lease says; nil if there is none.
func (s *State) readLease(ctx context.Context) (*Claim, string, error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	text, tag, err := s.o.Objects.Get(ctx, LeaseName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	var c Claim
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, "", fmt.Errorf("%w: %w", errNoClaim, err)
	}
	var check string
	if err := s.seal.open(LeaseName, c.Seal, &check); err != nil {
		return nil, "", err
	}
	return &c, tag, nil
}

// claimOnce writes the lease once, and reports whether it is this process's now.
func (s *State) claimOnce(ctx context.Context, when Condition) bool {
	s.lease.Count++
	text, _ := json.Marshal(s.lease.Claim) // of texts and numbers
	began := time.Now()
	limited, cancel := s.limited(ctx)
	tag, err := s.o.Objects.Put(limited, LeaseName, text, when)
	cancel()
	if err != nil && !errors.Is(err, ErrCondition) { // it may be there
		s.o.Log.Warn("the lease of the shared state was not written", "error", err)
	}
	if err != nil {
		found, at, err := s.readLease(ctx)
		if err != nil || found == nil || found.Session != s.lease.Session || found.Count != s.lease.Count {
			return false
		}
		tag = at
	}
	s.lease.tag = tag
	s.mu.Lock()
	s.limit = deadline{began}
	s.mu.Unlock()
	return true
}

// renew writes the lease again and again.
func (s *State) renew() {
	for {
		select {
		case <-time.After(s.o.Lease / renewals):
		case <-s.life.Done():
			return
		}
		for !s.claimOnce(s.life, Condition{Tag: s.lease.tag}) {
			found, tag, err := s.readLease(s.life)
			switch {
			case s.life.Err() != nil:
				return
			case err == nil && found == nil:
				s.lose(errors.New("its lease was removed from the object store"))
				return
			case err == nil && found.Session != s.lease.Session:
				s.lose(fmt.Errorf("the manager %s has it", found.Name))
				return
			case err == nil:
				s.lease.tag = tag // a call that had no answer had an effect
			}
			if !s.pause(min(retryPause, s.o.Lease/(2*renewals))) {
				return
			}
		}
	}
}

// watch ends all when the lease's time is over.
func (s *State) watch() {
	for {
		s.mu.Lock()
		left := s.limit.left(s.o.Lease)
		s.mu.Unlock()
		if s.overdue() {
			return
		}
		select {
		case <-time.After(min(left, s.o.Lease/(2*renewals))): // the clock may be set meanwhile
		case <-s.life.Done():
			return
		}
	}
}

// overdue reports whether the lease's time is over; the state is lost then.
func (s *State) overdue() bool {
	s.mu.Lock()
	left := s.limit.left(s.o.Lease)
	s.mu.Unlock()
	if left > 0 {
		return false
	}
	s.lose(fmt.Errorf("its lease was not renewed within %s, because the object store did not answer, or this host stood still", s.o.Lease))
	return true
}

// release says that others need not wait.
func (s *State) release() error {
	s.lease.Released = true
	ctx, cancel := s.limited(context.Background())
	defer cancel()
	if s.claimOnce(ctx, Condition{Tag: s.lease.tag}) {
		return nil
	}
	found, tag, err := s.readLease(ctx) // the last renewal may have had an effect, and no answer
	if err == nil && found != nil && found.Session == s.lease.Session && s.claimOnce(ctx, Condition{Tag: tag}) {
		return nil
	}
	return errors.Join(errors.New("the lease of the shared state is not given back, and others wait until it is over"), err)
}
