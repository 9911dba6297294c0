//go:build !windows

package service

// Run runs f. Where a service is an ordinary process, signals say when it ends.
func Run(_ string, f func(stop <-chan struct{}) error) error { return f(nil) }
