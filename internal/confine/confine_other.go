//go:build !linux

package confine

import (
	"errors"
	"runtime"
)

// ABI is the version of Landlock's interface that the kernel has; 0 is none.
func ABI() int { return 0 }

// Child is a confined process. There are none.
type Child struct{}

// Refusal says why processes cannot be confined here.
func Refusal() error {
	return &SetupError{"namespaces", errors.New("only Linux has them, and this is " + runtime.GOOS)}
}
