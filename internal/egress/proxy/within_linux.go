package proxy

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// within does something on a thread that is in a network namespace, and ends with it.
func within(namespace string, do func() error) error {
	at, err := os.Open(namespace)
	if err != nil {
		return err
	}
	defer at.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock it: a thread of another namespace is of no use to others
		err := unix.Setns(int(at.Fd()), unix.CLONE_NEWNET)
		if err != nil {
			err = &os.PathError{Op: "entering the network namespace", Path: namespace, Err: err}
		} else {
			err = do()
		}
		done <- err
	}()
	return <-done
}
