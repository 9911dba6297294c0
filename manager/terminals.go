package manager

import (
	"log/slog"
	"sync"

	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/terminal"
)

// terminals serves the terminals of jobs, as the configuration says.
type terminals struct {
	log *slog.Logger

	mu      sync.Mutex
	wanted  config.SessionServer
	started bool
	known   map[string]terminal.Identity // what GitLab was told of servers, by their addresses
	listen  string                       // as the configuration has it
	reached string
	server  *terminal.Server // nil where there are none
}

// configure changes to another configuration. The jobs that run have no terminals any more if the addresses are others.
func (t *terminals) configure(c config.SessionServer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted = c
	if t.started {
		t.serve()
	}
}

// start begins to serve, as the process before did for the jobs that it left: GitLab asks for their terminals where it was told that they are.
func (t *terminals) start(left []inherited) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.started, t.known = true, map[string]terminal.Identity{}
	for _, j := range left {
		if k := j.record.Terminal; k != nil {
			t.known[k.Server.Address] = k.Server
		}
	}
	t.serve()
}

// serve serves as it is wanted. The caller holds the lock.
func (t *terminals) serve() {
	if t.listen == t.wanted.ListenAddress && t.reached == t.wanted.AdvertiseAddress {
		return
	}
	t.listen, t.reached = t.wanted.ListenAddress, t.wanted.AdvertiseAddress
	t.server.Close()
	t.server = nil
	if t.listen == "" {
		return
	}
	server, err := terminal.Listen(terminal.Options{Listen: t.listen, Advertise: t.reached, Known: t.known, Log: t.log})
	if err != nil {
		t.listen = "" // the next reading of the configuration tries again
		t.log.Error("jobs have no terminals ([session_server])", "error", err)
		return
	}
	t.server, t.known[server.Address()] = server, server.Identity()
	t.log.Info("the terminals of jobs are served", "listen_address", t.listen, "address", server.Address())
}

// begin makes a terminal for a job that is asked for; nil where there are none.
func (t *terminals) begin() *terminal.Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.server.Begin(t.wanted.SessionTimeout)
}

// resume goes on with the terminal of a job of the process before; nil where GitLab was told of another server.
func (t *terminals) resume(k *terminal.Kept) *terminal.Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.server.Resume(k, t.wanted.SessionTimeout)
}

func (t *terminals) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.server.Close()
}
