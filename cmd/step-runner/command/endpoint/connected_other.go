//go:build !unix

package endpoint

import (
	"errors"
	"os"
)

func openDescriptor(int) (*os.File, error) { return nil, errors.ErrUnsupported }
