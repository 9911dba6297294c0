// Package builtinexit has the exit codes by which a built-in step tells the engine that it has failed for a reason that is not the user's. No program
// is known to use them.
package builtinexit

const (
	// DiskFull says that a disk is full: what the step wrote may be gone by then, so that its disk no longer looks full.
	DiskFull = 231
	// Unavailable says that a server or a program that the step needs does not answer, such as Vault or a container engine.
	Unavailable = 232
)
