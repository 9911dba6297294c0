//go:build unix && !linux

package process

import "syscall"

func wantPidfd(*syscall.SysProcAttr, *int) {}

func (c *child) fork(forkExec func() (int, error)) (err error) {
	c.pid, err = forkExec()
	return err
}

func (c *child) forget() {}

func (c *child) killOrphans() {}
