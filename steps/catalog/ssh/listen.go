package ssh

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/crypto/ssh/agent"
)

// listener serves the protocol of the agent on a Unix socket.
type listener struct {
	path  string
	keys  agent.Agent
	l     net.Listener
	conns sync.WaitGroup

	mu      sync.Mutex
	open    map[net.Conn]bool
	stopped bool
}

// listen begins to serve. The socket is for this user alone, as is the folder that it is in.
func listen(path string, keys agent.Agent) (*listener, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("opening the agent's socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the agent's socket: %w", err), l.Close())
	}
	a := &listener{path: path, keys: keys, l: l, open: map[net.Conn]bool{}}
	a.conns.Go(a.accept)
	return a, nil
}

func (a *listener) accept() {
	for {
		conn, err := a.l.Accept()
		if err != nil {
			return // it is closed
		}
		if !a.track(conn) {
			conn.Close()
			return
		}
		a.conns.Go(func() {
			_ = agent.ServeAgent(a.keys, conn) // its error is that a client has gone
			a.untrack(conn)
		})
	}
}

func (a *listener) track(conn net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.stopped {
		a.open[conn] = true
	}
	return !a.stopped
}

func (a *listener) untrack(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	conn.Close()
	delete(a.open, conn)
}

// stop ends serving, and forgets the keys.
func (a *listener) stop() {
	a.l.Close()
	a.mu.Lock()
	a.stopped = true
	for conn := range a.open {
		conn.Close()
	}
	a.mu.Unlock()
	a.conns.Wait()
	_ = a.keys.RemoveAll() // which a script that locked the agent prevents; the keys end with the process
}
