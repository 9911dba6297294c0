//go:build !linux

package machine

import "errors"

var errLinux = errors.New("the pod of a machine needs Linux")

func serve(string) error { return errLinux }

func listen(string, string) error { return errLinux }
