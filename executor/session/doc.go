// Package session is what everything that runs jobs on this machine needs of where they run: it opens levels of isolation, moves files in
// and out of environments, and runs a list of steps in one.
package session
