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

// readNow reads nothing: there is no way to do so without waiting.
func (p *pipe) readNow([]byte) (n int, atEnd bool) { return 0, false }

// interrupt makes a waiting Read end.
func (p *pipe) interrupt() { _ = p.Close() }

func (p *pipe) close() { _ = p.Close() }
