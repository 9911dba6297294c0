//go:build !unix

package projectfile

const noWait = 0
