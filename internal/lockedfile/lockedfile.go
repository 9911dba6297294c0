// Package lockedfile locks a file for one process at a time, for as long as that lives.
package lockedfile

import (
	"errors"
	"os"
)

// ErrInUse says that another process has a file.
var ErrInUse = errors.New("another process uses it")

// Has reports whether a name is still that of a file that was opened.
func Has(file *os.File, path string) bool {
	mine, err := file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(path)
	return err == nil && os.SameFile(mine, now)
}
