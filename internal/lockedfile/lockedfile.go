// Package lockedfile locks a file for one process at a time, for as long as that lives.
package lockedfile

import "errors"

// ErrInUse says that another process has a file.
var ErrInUse = errors.New("another process uses it")
