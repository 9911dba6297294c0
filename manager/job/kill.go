package job

import "github.com/rungci/rung/executor/session"

// Kill ends jobs at once.
type Kill = session.Kill

// NewKill is one that its Now sets off.
func NewKill() *Kill { return session.NewKill() }

// KillOn is one that is set off when a channel is closed.
func KillOn(when <-chan struct{}) *Kill { return session.KillOn(when) }
