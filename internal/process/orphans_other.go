//go:build !linux

package process

import "time"

// EnableSubreaper does nothing: only Linux lets a program adopt orphans.
func EnableSubreaper() error { return nil }

func orphanTicker() (tick <-chan time.Time, stop func()) { return nil, func() {} }

func reapDeadOrphans() {}
