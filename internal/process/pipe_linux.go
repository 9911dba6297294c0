package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipe is our end of a pipe that a process writes to. It does not block. Only when it is read in the background is it made
// known to the runtime's poller, which otherwise would wake a thread for every event, for nothing.
type pipe struct {
	fd   int
	file *os.File // set by background
}

func newPipe() (p *pipe, childEnd *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	childEnd = os.NewFile(uintptr(fds[1]), "|1")
	if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETFL, unix.O_NONBLOCK); err != nil { // the only flag that a new pipe can have
		unix.Close(fds[0])
		childEnd.Close()
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return &pipe{fd: fds[0]}, childEnd, nil
}

// widen makes the pipe hold as much as a read may take, so that the process and its reader wake each other less often. What the pipes of a
// user may hold together is limited: beyond that, this one stays as it is.
func (p *pipe) widen(size int) { _, _ = unix.FcntlInt(uintptr(p.fd), unix.F_SETPIPE_SZ, size) }

// background prepares the pipe for Read and interrupt.
func (p *pipe) background() { p.file = os.NewFile(uintptr(p.fd), "|0") }

// Read waits for output.
func (p *pipe) Read(buf []byte) (int, error) { return p.file.Read(buf) }

// readNow reads what the pipe holds. It returns 0 or less when that is nothing.
func (p *pipe) readNow(buf []byte) (n int, atEnd bool) { return readFd(p.fd, buf) }

// interrupt makes a waiting Read end with os.ErrDeadlineExceeded.
func (p *pipe) interrupt() { _ = p.file.SetReadDeadline(longAgo) }

func (p *pipe) close() {
	if p.file != nil {
		p.file.Close()
	} else {
		unix.Close(p.fd)
	}
}
