// Package sourcetest provides what tests of sources need: servers of components that run on this machine, over real protocols.
// No program links it.
package sourcetest
