package worktree

import (
	"errors"
	"io/fs"
)

const noFollow = 0

// gone reports whether a file is not there.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
