// Package session manages the environments of jobs for everything that runs jobs on this machine: it opens isolation levels, moves files
// in and out of environments, and runs a list of steps in one.
package session
