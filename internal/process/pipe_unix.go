//go:build unix && !linux

package process

import "os"

// pipe is our end of a pipe that a process writes to.
type pipe struct{ *os.File }

func newPipe() (p *pipe, childEnd *os.File, err error) {
	reader, childEnd, err := os.Pipe()
	return &pipe{reader}, childEnd, err
}

// background has nothing to prepare.
func (p *pipe) background() {}

// widen does nothing: the system chooses the size of a pipe.
func (p *pipe) widen(int) {}

// readNow reads what the pipe holds. It returns 0 or less when that is nothing.
func (p *pipe) readNow(buf []byte) (n int, atEnd bool) {
	conn, err := p.SyscallConn()
	if err != nil {
		return 0, true
	}
	err = conn.Control(func(fd uintptr) { n, atEnd = readFd(int(fd), buf) })
	return n, atEnd || err != nil
}

// interrupt makes a waiting Read end with os.ErrDeadlineExceeded.
func (p *pipe) interrupt() { _ = p.SetReadDeadline(longAgo) }

func (p *pipe) close() { p.Close() }
