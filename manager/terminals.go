package manager

import (
	"log/slog"
	"sync"
	"time"

	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/terminal"
)

// terminals serves the terminals of jobs, as the configuration says.
type terminals struct {
	log *slog.Logger

	mu      sync.Mutex
	listen  string // as the configuration has it
	reached string
	limit   time.Duration
	server  *terminal.Server // nil where there are none
}

// serve changes to another configuration. The jobs that run have no terminals any more if the addresses are others.
func (t *terminals) serve(c config.SessionServer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit = c.SessionTimeout
	if t.listen == c.ListenAddress && t.reached == c.AdvertiseAddress {
		return
	}
	t.listen, t.reached = c.ListenAddress, c.AdvertiseAddress
	t.server.Close()
	t.server = nil
	if t.listen == "" {
		return
	}
	server, err := terminal.Listen(terminal.Options{Listen: t.listen, Advertise: t.reached, Log: t.log})
	if err != nil {
		t.listen = "" // the next reading of the configuration tries again
		t.log.Error("jobs have no terminals ([session_server])", "error", err)
		return
	}
	t.server = server
	t.log.Info("the terminals of jobs are served", "listen_address", t.listen, "address", server.Address())
}

// begin makes a terminal for a job that is asked for; nil where there are none.
func (t *terminals) begin() *terminal.Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.server.Begin(t.limit)
}

func (t *terminals) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.server.Close()
}
