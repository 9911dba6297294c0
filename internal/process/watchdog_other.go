//go:build !linux

package process

import "io"

// EnableWatchdog does nothing: on Windows the job object ends with this program, and on other systems a killed program leaves what it ran.
func EnableWatchdog(...string) {}

// EndTogether does nothing, for the same reasons.
func EndTogether() {}

// Watchdog is for Linux.
func Watchdog(io.Reader) {}

func (c *child) isTidy() bool { return false }

func (c *child) watch(bool) {}

func (c *child) unwatch() {}
