//go:build unix

package proxy

import (
	"errors"
	"os"
	"syscall"
)

// GiveUpRights makes a process of root one of nobody.
func GiveUpRights() error {
	const nobody = 65534
	if os.Geteuid() != 0 {
		return nil
	}
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody))
}
