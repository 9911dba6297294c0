//go:build !linux

package process

import (
	"errors"
	"os"
)

// MemoryFile is for Linux; elsewhere it returns errors.ErrUnsupported.
func MemoryFile([]byte) (*os.File, error) { return nil, errors.ErrUnsupported }

// FilePath is for Linux.
func FilePath(int) string { return "" }
