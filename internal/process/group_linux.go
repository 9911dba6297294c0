package process

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// intoGroup makes the kernel start a process in a control group (CLONE_INTO_CGROUP, since Linux 5.7). leave is called once it was started.
func intoGroup(attr *syscall.SysProcAttr, dir string) (leave func(), err error) {
	if dir == "" {
		return func() {}, nil
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	attr.UseCgroupFD, attr.CgroupFD = true, fd
	return func() { _ = unix.Close(fd) }, nil
}
