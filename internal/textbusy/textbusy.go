// Package textbusy starts programs that were just written.
package textbusy

import (
	"errors"
	"syscall"
	"time"
)

// retries and pause bound how long a start waits for a program file that is still open for writing. It is, for a
// moment, when a process that starts at the same time has inherited the file and not yet executed its own program.
const (
	retries = 40
	pause   = 5 * time.Millisecond
)

// Retry starts a process of a program that was just written. It calls start again, for a fifth of a second, while the error says that the file
// is open for writing: os/exec does not.
func Retry(start func() error) error {
	for try := 0; ; try++ {
		err := start()
		if !errors.Is(err, syscall.ETXTBSY) || try == retries {
			return err
		}
		time.Sleep(pause)
	}
}
