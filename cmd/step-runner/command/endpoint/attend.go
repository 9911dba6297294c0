package endpoint

import (
	"net"
	"sync"
	"time"
)

// attendance notices when nobody has been connected for a while.
type attendance struct {
	limit time.Duration
	over  func()

	mu        sync.Mutex
	connected int
	since     time.Time   // that nobody is connected
	late      *time.Timer // when that is too long
	stopped   bool
}

// attend calls over when nobody has been connected for the time of limit, from now on.
func attend(limit time.Duration, over func()) *attendance {
	a := &attendance{limit: limit, over: over, since: time.Now()}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late = time.AfterFunc(limit, a.look)
	return a
}

// look ends it, unless somebody came while the timer rang.
func (a *attendance) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped || a.connected > 0 || time.Since(a.since) < a.limit {
		return
	}
	a.stopped = true
	a.over()
}

func (a *attendance) arrive() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.connected++
	a.late.Stop()
}

func (a *attendance) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.connected--; a.connected == 0 {
		a.since = time.Now()
		a.late.Reset(a.limit)
	}
}

func (a *attendance) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	a.late.Stop()
}

// attendedListener counts those who are connected: an accepted connection is what tells a server that it has an owner.
type attendedListener struct {
	net.Listener
	attendance *attendance
}

// Accept implements net.Listener.
func (l *attendedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.attendance.arrive()
	return &attendedConn{Conn: conn, leave: sync.OnceFunc(l.attendance.leave)}, nil
}

type attendedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *attendedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
