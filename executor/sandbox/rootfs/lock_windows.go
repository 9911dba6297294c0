package rootfs

import (
	"errors"
	"os"
)

// Sandboxes are made on Linux alone.
func lockShared(*os.File) error    { return errors.ErrUnsupported }
func lockExclusive(*os.File) error { return errors.ErrUnsupported }
