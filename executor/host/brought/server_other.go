//go:build !linux

package brought

import (
	"errors"
	"io"
)

var errLinux = errors.New("an SSH server that is brought into a container needs Linux")

func serve(string, string, io.Reader) error { return errLinux }

func listen(string, string) error { return errLinux }
