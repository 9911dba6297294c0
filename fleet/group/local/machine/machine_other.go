//go:build !linux

package machine

import (
	"context"
	"errors"
	"net"
	"runtime"
)

var errElsewhere = errors.New("machines on this host need namespaces, which only Linux has; this is " + runtime.GOOS)

// Possible says why there can be no machines on this host.
func Possible() error { return errElsewhere }

// Process is a process of this host.
type Process struct{ PID int }

// Of refuses.
func Of(int) (Process, error) { return Process{}, errElsewhere }

// Lives is false.
func (Process) Lives() bool { return false }

// Kill does nothing.
func (Process) Kill() {}

// Ask does nothing.
func (Process) Ask() {}

// Suspend refuses.
func Suspend(context.Context, string) error { return errElsewhere }

// Resume refuses.
func Resume(context.Context, string) error { return errElsewhere }

// Remove refuses.
func Remove(context.Context, string) error { return errElsewhere }

// Labels are none.
func Labels(string, string) map[string]string { return nil }

// Sweep refuses.
func Sweep(context.Context, *Box, string, func(string) bool) error { return errElsewhere }

// Prepare refuses.
func Prepare(string, Config, string) error { return errElsewhere }

// Authorize refuses.
func Authorize(string, string) error { return errElsewhere }

// Start refuses.
func Start(string, *net.TCPListener, string, func([]string) []string) (Process, func(), error) {
	return Process{}, nil, errElsewhere
}
