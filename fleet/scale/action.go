package scale

import (
	"errors"
	"fmt"
	"time"
)

// Kind is what an action does.
type Kind int

// The kinds of actions.
const (
	Create  Kind = iota // make a machine of Pool, with the id Request for the request; it may be repeated, with the same id
	Delete              // end a machine; it may be repeated
	Drain               // the machine takes no more jobs
	Place               // the job Key runs in a slot of the machine
	End                 // the job Key has lost its machine
	Suspend             // the machine is idle, and may be needed later; until a list has it suspended it may be repeated
	Resume              // a machine that is suspended is to run again; likewise

	CreateVolume // make Volume, with the id Request for the request; these four may be repeated, and VolumeRecord has what they are about
	AttachVolume // bring it to its machine
	DetachVolume // take it from there
	DeleteVolume // end it
)

// String is the kind as a verb.
func (k Kind) String() string {
	return [...]string{"create", "delete", "drain", "place", "end", "suspend", "resume", "create volume", "attach volume", "detach volume", "delete volume"}[k]
}

// Action is something to do. It is to be recorded before it is done.
type Action struct {
	Kind     Kind
	Pool     string
	Request  string // the machine's, by which the fleet knows it
	Instance string // its id in the group; empty if that is unknown: it is found by its request
	Key      string // of a job
	Slot     int
	Waited   time.Duration // by a job that is placed
	Volume   string        // the tenant's whose volume it is about, or which the job that is placed has; empty: none
	Why      string        // in a sentence; for Place, what there is to say of its volume: ExplainJob says the rest
}

func (f *machines) act(a Action) { f.actions = append(f.actions, a) }

// FailureKind is what kind of error a group answered with.
type FailureKind int

// The kinds of failures.
const (
	// Unknown is any other: what was asked for may have happened, or may not.
	Unknown FailureKind = iota
	// Transient has changed nothing, and may succeed later.
	Transient
	// Quota has changed nothing: the cloud has no more such machines, for us or at all.
	Quota
	// Unauthorized has changed nothing, and will not until somebody does.
	Unauthorized
	// NotFound is about something that does not exist.
	NotFound
)

// Failure is an error of a group.
type Failure struct {
	Kind  FailureKind
	After time.Duration // when the group says that it may be tried again
	Err   error
}

// Error is the text of the error inside.
func (e Failure) Error() string {
	if e.Err == nil {
		return [...]string{"unknown error", "transient error", "quota exceeded", "not authorized", "not found"}[e.Kind]
	}
	return e.Err.Error()
}

// Unwrap is the error inside.
func (e Failure) Unwrap() error { return e.Err }

// failureOf finds a Failure in an error; another error is Unknown.
func failureOf(err error) Failure {
	var e Failure
	if errors.As(err, &e) {
		return e
	}
	return Failure{Err: err}
}

// Created says that a group has accepted a create. instance is what it calls the machine, if it says that.
func (f *Fleet) Created(now time.Time, request, instance string) {
	m := f.requests[request]
	switch {
	case m == nil && instance != "": // given up long ago, and made all the same
		f.stray(now, request, instance, "", "its creation had been given up")
	case m == nil:
	case m.id != "" && instance != "" && m.id != instance:
		f.stray(now, request+"/"+instance, instance, m.pool.Name, fmt.Sprintf("%s was made for the same request", m.id))
	default:
		f.identify(m, instance)
		if m.state == Requested {
			m.pool.backoff.made()
			f.become(now, m, Creating, "")
			f.wait(m, m.created.Add(m.pool.BootTimeout))
		}
	}
}

func (f *machines) identify(m *instance, id string) {
	at := m.pool.named(id)
	if m.id == "" && id != "" && f.ids[at] == nil {
		m.id = id
		f.ids[at] = m
		f.changes.of(m)
	}
}

// stray takes over a machine that nobody needs, so that it ends.
func (f *machines) stray(now time.Time, request, id, pool, why string) {
	p := f.poolOf(pool)
	if f.ids[p.named(id)] != nil || f.requests[request] != nil {
		return
	}
	m := f.add(now, p, request, Failed, why)
	f.identify(m, id)
	f.remove(now, m, fmt.Sprintf("%s is deleted: %s", m.name(), why))
}

// CreateFailed says that a create failed. After an Unknown failure it is asked for again, with the same id; after others nothing was made, and the
// pool waits before it asks for another machine.
func (f *Fleet) CreateFailed(now time.Time, request string, err error) {
	m := f.requests[request]
	if m == nil || m.state != Requested {
		return
	}
	e := failureOf(err)
	m.pool.backoff.failed(now, e)
	if e.Kind == Unknown {
		m.unready = "it could not be created: " + e.Error()
		f.wait(m, m.pool.backoff.until)
		return
	}
	f.forget(now, m, "it could not be created: "+e.Error())
}

// Unmade says why a machine does not exist yet that is asked for again and again, and when it is next; empty if no attempt has failed.
func Unmade(f *Fleet, request string) string {
	m := f.requests[request]
	if m == nil || m.state != Requested || m.unready == "" {
		return ""
	}
	return m.unready + m.pool.backoff.next()
}

// Ready says that a machine can be reached, and takes jobs.
func (f *Fleet) Ready(now time.Time, request string) {
	m := f.requests[request]
	if m == nil || m.state > Creating {
		return
	}
	m.pool.backoff.succeeded()
	if !m.resumed {
		m.pool.boots.add(now.Sub(m.created))
	}
	m.idleSince = now
	f.become(now, m, Ready, "")
	f.fill(now, m)
}

// Unready says why a machine cannot be reached yet. It changes nothing; if the machine never can, that is the reason.
func (f *Fleet) Unready(request, why string) {
	if m := f.requests[request]; m != nil && m.state == Creating {
		m.unready = why
	}
}

// Failed says that a machine is of no use: its ready command failed, or it cannot be reached any more. Its jobs end, and then itself.
func (f *Fleet) Failed(now time.Time, request, reason string) {
	m := f.requests[request]
	if m == nil {
		return
	}
	m.waste(now, reason)
	f.fail(now, m, fmt.Sprintf("%s has failed: %s", m.name(), reason))
}

// Interrupted says that a cloud will take a machine back. Its jobs may go on as long as they can; it gets no more.
func (f *Fleet) Interrupted(now time.Time, request string, at time.Time) {
	m := f.requests[request]
	if m == nil || m.state >= Draining {
		return
	}
	why := fmt.Sprintf("the cloud takes %s back at %s", m.name(), at.UTC().Format(time.TimeOnly))
	if m.state == Ready {
		f.drain(now, m, why)
		return
	}
	f.fail(now, m, why)
}

// Retire says that a machine is to have no more jobs: it ends once those that it has have ended.
func (f *Fleet) Retire(now time.Time, request, why string) {
	m := f.requests[request]
	switch {
	case m == nil:
	case m.state == Ready:
		f.drain(now, m, fmt.Sprintf("%s gets no more jobs: %s", m.name(), why))
	case m.state == Suspended:
		f.remove(now, m, why)
	case m.state < Ready:
		f.fail(now, m, fmt.Sprintf("%s is not needed: %s", m.name(), why))
	}
}

// Deleted says that a group has accepted a delete. The machine stays in the fleet until it is seen gone: it may cost money, and counts.
func (f *machines) Deleted(now time.Time, request string, gone bool) {
	m := f.requests[request]
	if m == nil || m.state != Deleting {
		return
	}
	if gone {
		f.forget(now, m, m.reason)
		return
	}
	m.accepted = true
	f.wait(m, now.Add(f.config.DeleteRetry))
}

// DeleteFailed says that a delete failed. It is asked for again, without end; NotFound is what was wanted.
func (f *machines) DeleteFailed(now time.Time, request string, err error) {
	m := f.requests[request]
	if m == nil || m.state != Deleting {
		return
	}
	e := failureOf(err)
	if e.Kind == NotFound {
		f.forget(now, m, m.reason)
		return
	}
	f.wait(m, now.Add(max(f.config.DeleteRetry, e.After)))
}
