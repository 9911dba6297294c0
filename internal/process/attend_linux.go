package process

import (
	"context"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// wantPidfd makes a start set fd to a descriptor for the process, where the kernel has them (5.3 and later).
func wantPidfd(attr *syscall.SysProcAttr, fd *int) { attr.PidFD = fd }

// superviseAfter is how long a process runs before something waits for a reason to stop it, and so the most by which a stop is
// late. Most processes end sooner, and the goroutine and its wake-ups would cost them a tenth of their time.
const superviseAfter = 20 * time.Millisecond

// attend sees to a process until it has ended. It reports whether it stopped it.
//
// The calling goroutine itself waits, in one system call, for the process and for its output: to hand each event from one
// thread to the next would cost a short process a tenth of its time, too.
func attend(ctx context.Context, kill <-chan struct{}, grace time.Duration, c *child, out *output) (stopped bool) {
	if c.pidfd < 0 {
		return attendInBackground(ctx, kill, grace, c, out)
	}
	defer unix.Close(c.pidfd)
	var claimed atomic.Bool // by the first of: the stop, the end
	claim := func() bool { return claimed.CompareAndSwap(false, true) }
	ended, supervised := make(chan struct{}), make(chan struct{})
	start := time.AfterFunc(superviseAfter, func() {
		defer close(supervised)
		supervise(ctx, kill, grace, c, ended, claim)
	})
	out.copyUntilEnd(c.pidfd)
	if start.Stop() || claim() {
		close(ended)
		return false
	}
	out.copy() // the rest of the group may have something to say in its grace
	close(ended)
	<-supervised
	return true
}

// processEvent is the index of the process itself in what is watched; before it come the output streams.
const processEvent = 2

// copyUntilEnd hands the output on until the process has ended. Some of the output may be left.
func (o *output) copyUntilEnd(pidfd int) {
	small := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(small)
	buf := small[:]
	events := [processEvent + 1]unix.PollFd{{Fd: -1}, {Fd: -1}, {Fd: int32(pidfd), Events: unix.POLLIN}}
	for i := range o.count {
		events[i] = unix.PollFd{Fd: int32(o.streams[i].pipe.fd), Events: unix.POLLIN}
	}
	for events[processEvent].Revents == 0 {
		if _, err := unix.Poll(events[:], -1); err != nil {
			continue // a signal for this program; poll has no other errors here
		}
		for i := range o.count {
			if events[i].Revents == 0 {
				continue
			}
			n, atEnd := readFd(int(events[i].Fd), buf)
			o.streams[i].write(buf[:max(n, 0)])
			buf = wider(buf, n, o.streams[i].pipe)
			if atEnd {
				o.streams[i].state = ended
				events[i] = unix.PollFd{Fd: -1}
			}
		}
	}
}
