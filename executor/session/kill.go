package session

import "sync"

// Kill ends a run at once, and says why. A nil Kill never does.
type Kill struct {
	when <-chan struct{}
	own  chan struct{} // when, of NewKill
	once sync.Once     // closes own
	why  string
}

// NewKill is one that Now sets off.
func NewKill() *Kill {
	own := make(chan struct{})
	return &Kill{when: own, own: own}
}

// KillOn is one that is set off when a channel is closed: the user has asked again.
func KillOn(when <-chan struct{}) *Kill { return &Kill{when: when, why: "asked again"} }

// Now sets off one of NewKill. The first reason stays; it is for people.
func (k *Kill) Now(reason string) {
	k.once.Do(func() {
		k.why = reason
		close(k.own)
	})
}

// Done is closed when the run is to end.
func (k *Kill) Done() <-chan struct{} {
	if k == nil {
		return nil
	}
	return k.when
}

// Reason is why, once Done is closed.
func (k *Kill) Reason() string { return k.why }
