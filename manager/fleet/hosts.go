package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/internal/lastoutput"
)

// connectTime bounds an attempt to connect, where the configuration does not.
const connectTime = 30 * time.Second

// hosts are the connections to machines, and to virtual machines within them: one for each, from its ready command until it is gone, for all who are on it.
type hosts struct {
	p *Provider

	mu    sync.Mutex
	open  map[string]*shared // by the request of the machine, or vmKey
	nests map[string]*nest   // by the request of the machine
}

// shared is a connection that is there, or being made.
type shared struct {
	ready chan struct{}
	host  host.Host
	err   error

	users int // jobs that have it, and hosts while it is open there; under hosts.mu
}

func newHosts(p *Provider) *hosts {
	return &hosts{p: p, open: map[string]*shared{}, nests: map[string]*nest{}}
}

// protocols are those of groups as providers have them.
var protocols = map[group.Protocol]string{
	"": provider.SSH, group.ProtocolSSH: provider.SSH, group.ProtocolWinRM: provider.WinRM, group.ProtocolWinRMHttps: provider.WinRMHTTPS,
}

// access is how a machine is reached.
func (h *hosts) access(m *control.Machine, info group.ConnectInfo) (provider.Access, error) {
	to := provider.Access{Address: info.Addr(h.external()), User: info.Username, Password: info.Password, Key: info.Key, HostKey: strings.Join(info.HostKeys, " ")}
	protocol, known := protocols[info.Protocol]
	if !known {
		return to, fmt.Errorf("%w: it is reached by %s, and machines are reached by ssh, winrm or winrm+https", control.ErrUseless, info.Protocol)
	}
	to.Protocol = protocol
	own, err := connectorOf(h.p.o.Machinery)
	if err != nil {
		return to, err
	}
	to.User = cmp.Or(to.User, own.Username)
	switch {
	case protocol != provider.SSH: // a key is of no use
		to.Key, to.Password = nil, cmp.Or(to.Password, own.Password)
	case len(to.Key) == 0 && to.Password == "":
		to.Key, to.Password = own.Key, own.Password
	}
	if protocol == provider.SSH && to.HostKey == "" {
		to.KnownHosts, to.Record = h.keys(m.Request), true
	}
	if info.Expires != nil {
		to.Renew = func(ctx context.Context) ([]byte, string, error) {
			now, err := m.ConnectInfo(ctx)
			return now.Key, now.Password, err
		}
	}
	return to, nil
}

// keys is the file with the host key that what a key stands for has shown first.
func (h *hosts) keys(key string) string {
	return filepath.Join(h.p.o.Setup.State, keysFolder, key)
}

func (h *hosts) external() bool {
	a := h.p.o.Machinery.Autoscaler
	return a != nil && a.Connector.UseExternalAddr
}

// get connects to a machine, or joins who has. The caller leaves what it gets.
func (h *hosts) get(ctx context.Context, m *control.Machine) (*shared, error) {
	machine := *m
	return h.join(ctx, m.Request, h.timeout(), func(ctx context.Context) (host.Host, error) {
		info, err := machine.ConnectInfo(ctx)
		if err != nil {
			return nil, err
		}
		to, err := h.access(&machine, info)
		if err != nil {
			return nil, err
		}
		return h.p.o.Connect(ctx, to)
	})
}

// join makes the connection of a key, or joins who has. The caller leaves what it gets.
func (h *hosts) join(ctx context.Context, key string, limit time.Duration, dial func(context.Context) (host.Host, error)) (*shared, error) {
	h.mu.Lock()
	s := h.open[key]
	if s == nil {
		s = &shared{ready: make(chan struct{}), users: 1}
		if !h.p.busy.Go(func() { h.make(s, key, limit, dial) }) {
			h.mu.Unlock()
			return nil, control.ErrClosed
		}
		h.open[key] = s
	}
	s.users++
	h.mu.Unlock()
	select {
	case <-s.ready:
		if s.err != nil {
			return nil, s.err // there is nothing to leave
		}
		return s, nil
	case <-ctx.Done():
		go func() {
			<-s.ready
			h.leave(s)
		}()
		return nil, context.Cause(ctx)
	}
}

// make makes a connection.
func (h *hosts) make(s *shared, key string, limit time.Duration, dial func(context.Context) (host.Host, error)) {
	ctx, cancel := context.WithTimeout(h.p.life, limit)
	defer cancel()
	s.host, s.err = dial(ctx)
	if s.err != nil {
		s.host = nil // or a nil pointer in an interface
	}
	close(s.ready)
	if s.err != nil {
		h.drop(key, s)
		return
	}
	h.p.busy.Go(func() { // who comes next connects again
		select {
		case <-s.host.Done():
			h.drop(key, s)
		case <-h.p.life.Done():
		}
	})
}

func (h *hosts) timeout() time.Duration {
	if a := h.p.o.Machinery.Autoscaler; a != nil && a.Connector.Timeout > 0 {
		return a.Connector.Timeout
	}
	return connectTime
}

// drop lets nobody else have a connection.
func (h *hosts) drop(key string, s *shared) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open[key] == s {
		delete(h.open, key)
	}
}

// forget ends the connection of a key to what is gone, in the background.
func (h *hosts) forget(key string) {
	h.mu.Lock()
	s := h.open[key]
	delete(h.open, key)
	delete(h.nests, key)
	h.mu.Unlock()
	leave := func() {
		if s != nil {
			<-s.ready
			h.leave(s)
		}
		_ = os.Remove(h.keys(key)) // another machine may have the address
	}
	if !h.p.busy.Go(leave) {
		leave() // nothing is being made any more
	}
}

// leave ends the use of a connection, and the connection with the last of them.
func (h *hosts) leave(s *shared) {
	h.mu.Lock()
	s.users--
	last := s.users == 0
	h.mu.Unlock()
	if last && s.host != nil {
		_ = s.host.Close() // nothing is on its way
	}
}

// close ends all connections but those that jobs have, which end with them.
func (h *hosts) close() {
	h.mu.Lock()
	all := h.open
	h.open = map[string]*shared{}
	h.mu.Unlock()
	for _, s := range all {
		<-s.ready
		h.leave(s)
	}
}

// connector gives jobs on a machine the connection to it.
func (h *hosts) connector(m control.Machine) func(context.Context) (host.Host, error) {
	return func(ctx context.Context) (host.Host, error) {
		s, err := h.get(ctx, &m)
		if err != nil {
			return nil, err
		}
		return &lent{Host: s.host, leave: sync.OnceFunc(func() { h.leave(s) })}, nil
	}
}

// lent is a connection that others use, too.
type lent struct {
	host.Host
	leave func()
}

// Close implements host.Host.
func (l *lent) Close() error {
	l.leave()
	return nil
}

// maxSaid is how much of the output of a command on a machine is kept, in bytes: jobs may have replaced it by what prints for ever.
const maxSaid = 2000

// prepare makes a machine ready.
func (h *hosts) prepare(ctx context.Context, m *control.Machine) error {
	s, err := h.get(ctx, m)
	if errors.Is(err, host.ErrRefused) {
		return &refusal{err}
	}
	if err != nil {
		return err
	}
	defer h.leave(s)
	if err := h.ready(ctx, s); err != nil {
		return err
	}
	return h.clear(ctx, m)
}

// refusal is a control.ErrRefused.
type refusal struct{ error }

// Is implements errors.Is.
func (*refusal) Is(target error) bool { return target == control.ErrRefused }

// ready runs the ready command.
func (h *hosts) ready(ctx context.Context, s *shared) error {
	a := h.p.o.Machinery.Autoscaler
	if a == nil || a.InstanceReadyCommand == "" {
		return nil
	}
	out := lastoutput.Buffer{Max: maxSaid}
	code, err := run(ctx, s.host, &host.Command{Args: readyCommand(s.host.Platform(), a.InstanceReadyCommand), Stdout: &out, Stderr: &out})
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: instance_ready_command has not ended in time", control.ErrUseless)
	case err != nil:
		return err
	case code != 0:
		return fmt.Errorf("%w: instance_ready_command exited with %d: %s", control.ErrUseless, code, &out)
	}
	return nil
}

// readyCommand is how a machine runs a text of the configuration.
func readyCommand(on host.Platform, text string) []string {
	if on.OS == "windows" {
		return []string{"powershell.exe", "-NoProfile", "-NonInteractive", "-Command", text}
	}
	return []string{"/bin/sh", "-c", text}
}

// nothing is a command that does nothing, and succeeds.
func nothing(on host.Platform) []string {
	if on.OS == "windows" {
		return []string{"cmd.exe", "/d", "/c", "exit 0"}
	}
	return []string{"true"}
}

// check says whether a machine does what it is told.
func (h *hosts) check(ctx context.Context, m *control.Machine) error {
	s, err := h.get(ctx, m)
	if err != nil {
		return err
	}
	defer h.leave(s)
	code, err := run(ctx, s.host, &host.Command{Args: nothing(s.host.Platform())})
	if err == nil && code != 0 {
		err = errors.New("it cannot run a command")
	}
	if err == nil {
		err = h.tend(ctx, m)
	}
	return err
}

func run(ctx context.Context, on host.Host, command *host.Command) (code int, err error) {
	p, err := on.Exec(ctx, command)
	if err != nil {
		return -1, err
	}
	return p.Wait()
}
