//go:build !unix

package tempfolder

import (
	"errors"
	"os"
)

// lockFile locks nothing: what a killed program leaves on this system is not removed.
func lockFile(*os.File) bool { return false }

func openOwn(string) (*os.File, error) { return nil, errors.ErrUnsupported }
