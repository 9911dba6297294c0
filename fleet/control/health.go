package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/scale"
)

// Pauses between attempts of Prepare.
const (
	preparePause   = time.Second
	prepareLongest = 15 * time.Second
	refusedTime    = 3 * time.Minute // for which a machine that boots may refuse us: users and keys come late
)

// ownFault is how long checks may fail of all machines of a group at once, which is rather this side's fault, before machines have failed.
const ownFault = 5 * time.Minute

var errNeverCame = errors.New("no list has it")

// health is what is known of a machine that is ready.
type health struct {
	checked  time.Time // it was well
	tried    time.Time
	checking bool
	failures int // checks in a row
	first    time.Time
	err      error
}

// prepare makes a machine ready that runs, unless that is under way. The caller holds the lock.
func (c *cloud) prepare(m *machine) {
	if m.preparing != nil || m.rec.State != scale.Creating || c.f.life.Err() != nil {
		return
	}
	if c.f.o.Prepare == nil {
		now := c.f.clock.Now()
		c.f.scale.Ready(now, m.request)
		c.f.follow(now)
		return
	}
	ctx, cancel := context.WithCancel(c.f.life)
	m.preparing = cancel
	c.f.busy.Go(func() {
		defer cancel()
		c.prepareUntil(ctx, m)
	})
}

// prepareUntil tries until the machine is ready, has failed, or is not wanted any more.
func (c *cloud) prepareUntil(ctx context.Context, m *machine) {
	var refused time.Time // since when it is; zero: it is not
	for pause := preparePause; ctx.Err() == nil; pause = min(2*pause, prepareLongest) {
		c.f.mu.Lock()
		of := m.public()
		c.f.mu.Unlock()
		err := c.f.visit(ctx, m, c.f.o.PrepareTimeout, func(ctx context.Context) error { return c.f.o.Prepare(ctx, &of) })
		if ctx.Err() != nil {
			return
		}
		switch now := c.f.clock.Now(); {
		case !errors.Is(err, ErrRefused):
			refused = time.Time{}
		case refused.IsZero():
			refused = now
		case now.Sub(refused) >= refusedTime:
			err = fmt.Errorf("%w for %s: %w", ErrUseless, refusedTime, err)
		}
		if err == nil || errors.Is(err, ErrUseless) {
			c.f.tell(func(now time.Time) {
				if m.prepareErr = err; err != nil {
					c.f.scale.Failed(now, of.Request, err.Error())
				} else {
					c.f.scale.Ready(now, of.Request)
				}
			})
			return
		}
		c.f.mu.Lock()
		m.prepareErr = err
		c.f.scale.Unready(of.Request, err.Error())
		c.f.mu.Unlock()
		of.access.forget(ctx)
		c.f.log.Debug("a machine is not ready yet", "instance", of.Instance, "error", err)
		select {
		case <-c.f.clock.After(pause):
		case <-ctx.Done():
		}
	}
}

// checks checks machines that are ready, each in its time.
func (f *Fleet) checks() {
	for {
		select {
		case <-f.clock.After(f.o.CheckInterval / 4):
		case <-f.life.Done():
			return
		}
		f.mu.Lock()
		now := f.clock.Now()
		for _, request := range f.requestsOf(func(m *machine) bool { return m.due(now, f.o.CheckInterval) }) {
			m := f.machines[request]
			m.health.checking = true
			f.busy.Go(func() { f.check(m) })
		}
		f.mu.Unlock()
	}
}

// due reports whether a machine is to be checked.
func (m *machine) due(now time.Time, interval time.Duration) bool {
	if m.cloud == nil || m.access == nil || m.health.checking || m.rec.State != scale.Ready && m.rec.State != scale.Draining {
		return false
	}
	if m.jobs() == 0 && m.health.failures == 0 {
		interval *= idleCheck
	}
	last := m.health.checked
	if m.health.tried.After(last) {
		last = m.health.tried
	}
	return now.Sub(last) >= interval
}

// answers reports whether the machine of a slot is well. One that was well lately is.
func (f *Fleet) answers(ctx context.Context, slot *Slot) bool {
	f.mu.Lock()
	m := f.machines[slot.Request]
	if m == nil {
		f.mu.Unlock()
		return false
	}
	lately := f.clock.Now().Sub(m.health.checked) < f.o.CheckInterval && m.health.failures == 0
	if lately || m.health.checking || ctx.Err() != nil {
		f.mu.Unlock()
		return lately
	}
	m.health.checking = true
	f.mu.Unlock()
	return f.check(m)
}

// check checks a machine, of which health.checking is set.
func (f *Fleet) check(m *machine) (well bool) {
	f.mu.Lock()
	of, c := m.public(), m.cloud
	f.mu.Unlock()
	_, err := call(f.life, c, f.o.CheckTimeout, func(ctx context.Context) (struct{}, error) { return struct{}{}, c.group.Heartbeat(ctx, of.Instance) })
	sick := errors.Is(err, group.ErrInstanceUnhealthy)
	switch {
	case sick:
	case errors.Is(err, group.ErrNotFound): // the lists decide
		f.mu.Lock()
		c.missing = true
		f.mu.Unlock()
		c.soon()
	case err != nil: // the group does not answer, which is not the machine's fault
		f.log.Debug("a heartbeat has no answer", "instance", of.Instance, "error", err)
		err = nil
	}
	if err == nil && f.o.Check != nil {
		err = f.visit(f.life, m, f.o.CheckTimeout, func(ctx context.Context) error { return f.o.Check(ctx, &of) })
	}
	if f.life.Err() != nil {
		return false
	}
	if err != nil {
		of.access.forget(f.life)
	}
	f.tell(func(now time.Time) { f.checked(now, m, err, sick) })
	return err == nil
}

// checked is the result of a check. One that its group says is sick gets no more jobs; one that does not answer has failed.
func (f *Fleet) checked(now time.Time, m *machine, err error, sick bool) {
	h := &m.health
	h.checking, h.tried, h.err = false, now, err
	if err == nil {
		h.checked, h.failures = now, 0
		m.cloud.checkOK = now
		return
	}
	if h.failures++; h.failures == 1 {
		h.first = now
	}
	if h.failures < f.o.FailureThreshold {
		return
	}
	why := fmt.Sprintf("%d checks in a row have failed: %v", h.failures, err)
	switch {
	case sick:
		f.scale.Retire(now, m.request, why)
	case errors.Is(err, group.ErrNotFound): // its end is for the lists to say
	case !m.cloud.checkOK.Before(h.first) || now.Sub(h.first) >= ownFault || len(f.requestsOf(func(o *machine) bool { return o.cloud == m.cloud && o.rec.State == scale.Ready })) < 2:
		f.scale.Failed(now, m.request, why)
	}
}
