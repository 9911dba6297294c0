package manager

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/cachestore"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/machines"
	"github.com/rungci/rung/manager/payload"
	"github.com/rungci/rung/manager/registration"
	"github.com/rungci/rung/manager/store"
	"github.com/rungci/rung/manager/supply"
	"github.com/rungci/rung/manager/terminal"
)

// entry is a [[runners]] of the configuration.
type entry struct {
	manager *Manager
	records *store.Runner
	twin    int // 0, or its number among those with its token
	log     *slog.Logger
	ended   chan struct{} // a job has ended: ask at once

	// The machines of jobs, where they come from a provider; nil otherwise.
	supply   *supply.Supply
	machines *machines.Opener

	// The manager's lock is held.
	held    []*gitlab.Job   // that wait for others of their project, in order
	life    context.Context // ends when no more jobs are asked for
	end     context.CancelFunc
	feeds   []context.CancelFunc // of the goroutines that ask
	feeding int                  // those that have not ended
	gone    bool                 // it is in the configuration no more, and its last job has ended
	nothing bool                 // and no machine is left, as far as is known

	mu        sync.Mutex
	api       *gitlab.Client
	tls       payload.TLS // what jobs get of the configuration's
	config    *config.Config
	runner    *config.Runner
	levels    config.Levels
	caches    cachestore.Signer // nil if they are in a folder
	from      *config.Provider  // what the supply is made of; nil is none
	since     string            // Answer.LastUpdate
	unhealthy int               // requests in a row
	resting   time.Time
	woken     chan struct{} // closed when the entry rests no more, and made again
	asking    int           // requests that are on their way
	expected  int           // environments that are about to be prepared: of the requests, and of the jobs that came
	contact   time.Time
	trouble   string
	unable    string // why it cannot run jobs; empty if it can

	fitness fitness
}

// newEntry makes an entry. The manager's lock is held.
func (m *Manager) newEntry(c *config.Config, r *config.Runner, records *store.Runner) (*entry, error) {
	e := &entry{manager: m, records: records, log: m.o.Log.With("runner", r.Name), ended: make(chan struct{}, 1), woken: make(chan struct{})}
	err := e.configure(c, r)
	if err != nil {
		return nil, err
	}
	for again(e) {
		e.twin++
	}
	if err := e.openSupply(r.Provider); err != nil {
		return nil, err
	}
	e.life, e.end = context.WithCancel(m.asking)
	m.known = append(m.known, e)
	return e, nil
}

// again reports whether another entry has what this one has in the state folder. The manager's lock is held.
func again(e *entry) bool {
	return slices.ContainsFunc(e.manager.known, func(o *entry) bool { return o != e && !o.gone && o.records.ID() == e.records.ID() && o.twin == e.twin })
}

// connect makes what speaks to GitLab for an entry, and what its jobs speak to GitLab with.
func connect(e *entry, c *config.Config, r *config.Runner, level executor.Level) (*gitlab.Client, payload.TLS, error) {
	m := e.manager
	to := r
	if m.o.StandIn != "" {
		to = &config.Runner{URL: m.o.StandIn}
	}
	with, err := c.Certificates(to)
	if err != nil {
		return nil, payload.TLS{}, err
	}
	transport, err := c.Transport(to)
	if err != nil {
		return nil, payload.TLS{}, err
	}
	observe := func(a gitlab.Attempt) {
		e.log.Debug("GitLab request", "method", a.Method, "endpoint", a.Endpoint, "status", a.Status, "took", a.Duration.Round(time.Millisecond), "repeated", a.Repeated)
		m.o.Observer.Attempted(e.name(), a)
	}
	api, err := gitlab.New(gitlab.Options{URL: to.URL, Transport: transport, Info: m.info(c, r, level), Observe: observe})
	return api, payload.TLS{CA: with.CA, Certificate: with.Certificate, Key: with.Key}, err
}

// certificates are those of jobs for GitLab. Without a file of the configuration, they get what GitLab's certificate was verified with here: the
// images of jobs need not have what this machine has.
func certificates(e *entry) payload.TLS {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.tls
	if out.CA == "" {
		out.CA = e.api.Chain()
	}
	return out
}

func (e *entry) client() *gitlab.Client {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.api
}

// info is what GitLab is told of this runner.
func (m *Manager) info(c *config.Config, r *config.Runner, level executor.Level) gitlab.Info {
	features := registration.Features
	features.Session = c.SessionServer.ListenAddress != ""
	features.Terminal = features.Session
	if level.Rank() < executor.Container.Rank() {
		features.Image, features.Services, features.ServiceVariables, features.ServiceMultipleAliases = false, false, false, false
		features.ImageExecutorOpts, features.ServiceExecutorOpts = false, false
	}
	return gitlab.Info{
		Name: "rung", Version: m.o.Version, Revision: m.o.Revision, Platform: runtime.GOOS, Architecture: runtime.GOARCH,
		Executor: r.Executor, Shell: r.Shell, Labels: r.Labels,
		Features: features,
	}
}

func (e *entry) settings() *config.Runner {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runner
}

// isolation are the levels of the entry's jobs.
func (e *entry) isolation() config.Levels {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.levels
}

// feed asks for jobs as long as there are slots for them, until life ends.
func (e *entry) feed(ctx, life context.Context) {
	if e.supply != nil { // the places of jobs that are adopted are theirs
		select {
		case <-e.manager.adopted:
		case <-life.Done():
			return
		}
	}
	for e.holdsEnough(life) {
		if err := e.supply.Wait(life); err != nil {
			return
		}
		slot, err := e.manager.slots.take(life, e)
		if err != nil {
			return
		}
		if !(space{e.manager}).roomFor(life, e) || !e.fit(ctx, life) {
			e.manager.slots.leave(e, slot)
			if !e.rest(life) {
				return
			}
			continue
		}
		key, reserved := e.supply.Reserve(life)
		if !reserved {
			e.manager.slots.leave(e, slot)
			continue
		}
		prepared := e.expect(life)
		from, terminal := e.ask(life)
		if from != nil && has(e, from) {
			e.log.Warn("GitLab sent a job again that this runner already runs; the job continues", "job", from.ID)
			from = nil
		}
		if from == nil {
			prepared()
			terminal.Close()
			e.supply.Release(key, "")
			e.manager.slots.leave(e, slot)
			if !e.rest(life) {
				return
			}
			continue
		}
		if run := e.admit(from, slot); run != nil {
			if e.supply != nil {
				run.reserved = &supply.Reservation{Key: key}
			}
			run.terminal, run.prepared = terminal, prepared
			e.manager.jobs.Go(func() { e.manager.run(ctx, run) })
		} else {
			prepared()
			e.supply.Release(key, "")
			e.manager.slots.leave(e, slot)
			e.keepWaiting(from)
			e.manager.jobs.Go(func() { e.hold(ctx, from, terminal) })
		}
		if e.settings().StrictCheckInterval && !e.rest(life) {
			return
		}
	}
}

// readyTime bounds how long a job is not asked for because the level is not ready for one.
const readyTime = 2 * time.Second

// expect makes the entry's level ready for another job, as far as it can be: what is done before the question is not waited for by the job. The
// function that it returns is called when the environment of the job is there, or there is no job.
func (e *entry) expect(life context.Context) (prepared func()) {
	if e.supply != nil { // its levels are on machines that are not known yet
		return func() {}
	}
	e.mu.Lock()
	e.expected++
	n, level := e.expected, e.levels.Default
	e.mu.Unlock()
	if r, ok := e.manager.levels.opened(e, level).(executor.Readier); ok {
		ctx, cancel := context.WithTimeout(life, readyTime)
		defer cancel()
		r.Ready(ctx, n)
	}
	return sync.OnceFunc(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.expected--
	})
}

// ask asks for a job; nil is none. The terminal is for that job.
func (e *entry) ask(life context.Context) (*gitlab.Job, *terminal.Session) {
	e.mu.Lock()
	last := e.since
	e.asking++
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.asking--
		e.mu.Unlock()
	}()
	if e.manager.slots.wanted() {
		last = "" // GitLab may hold a request that has it, and others want the slot
	}
	offered := e.manager.terminals.begin()
	answer, err := e.client().RequestJob(life, gitlab.Ask{Runner: gitlab.Runner{Token: e.settings().Token, SystemID: e.manager.o.SystemID}, LastUpdate: last, Session: offered.Info()})
	if life.Err() != nil {
		return nil, offered // a job that was on its way is handed out again: nobody has said that it runs
	}
	if err != nil {
		if e.sick(err) {
			e.manager.o.Observer.Rests(e.name())
		}
		return nil, offered
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unhealthy, e.contact, e.trouble = 0, time.Now(), ""
	if answer.Job == nil {
		e.since = answer.LastUpdate
	}
	return answer.Job, offered
}

// sick counts what will not pass by itself, and reports whether the entry rests now.
func (e *entry) sick(err error) bool {
	if gitlab.Status(err) == http.StatusForbidden {
		e.log.Warn("GitLab refuses the token of this runner: it may be mistyped, of another GitLab, expired, or its runner deleted; see `rung verify`", "error", err)
	} else {
		e.log.Warn("cannot request a job from GitLab", "error", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.trouble = err.Error()
	if !gitlab.Unhealthy(err) {
		return false
	}
	if e.unhealthy++; e.unhealthy >= e.runner.UnhealthyRequestsLimit {
		e.unhealthy = 0
		e.resting = time.Now().Add(e.runner.UnhealthyInterval)
		e.log.Error(fmt.Sprintf("%d consecutive requests failed; the next one is in %s", e.runner.UnhealthyRequestsLimit, e.runner.UnhealthyInterval), "error", err)
		return true
	}
	return false
}

// rest waits until it is time to ask again: the check interval, or until a job has ended where the interval is not strict. It returns false when
// life has ended.
func (e *entry) rest(life context.Context) bool {
	e.mu.Lock()
	wait, strict, woken := e.config.CheckInterval, e.runner.StrictCheckInterval, e.woken
	sick := time.Until(e.resting)
	e.mu.Unlock()
	timer := time.NewTimer(max(wait, sick))
	defer timer.Stop()
	for {
		select {
		case <-life.Done():
			return false
		case <-timer.C:
			return true
		case <-woken:
			return true
		case <-e.ended:
			if sick <= 0 && !strict {
				return true
			}
		}
	}
}

// jobEnded makes the entry ask at once.
func (e *entry) jobEnded() {
	select {
	case e.ended <- struct{}{}:
	default:
	}
}
