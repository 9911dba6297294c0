package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/internal/sshclient"
)

const (
	// maxLinks bounds the connections to one host.
	maxLinks = 16
	// maxRefusals is how many new connections may refuse a session before that is an error.
	maxRefusals = 3
	// retryPause is the pause between two attempts to reach a host again.
	retryPause = 500 * time.Millisecond
)

// errClosed is why calls fail after Close.
var errClosed = errors.New("the host was closed")

// link is one SSH connection.
type link struct {
	client *ssh.Client
	conn   *heardConn
	// alive ends with the connection. Whoever waits for an answer watches it: a channel that is opened while a connection ends may
	// never get one.
	alive context.Context
	end   context.CancelFunc

	// Under pool.mu:
	uses int  // open channels, and those that are being opened
	full bool // the server has refused another session
}

// heardConn is a connection that knows when something arrived last.
type heardConn struct {
	net.Conn
	heard atomic.Int64 // in Unix nanoseconds
}

func (c *heardConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

func (c *heardConn) silence() time.Duration { return time.Since(time.Unix(0, c.heard.Load())) }

// pool are the connections to one host. The first carries everything that it can.
type pool struct {
	name      string
	open      opener
	lostAfter time.Duration
	context   context.Context // ends with Close, and when the host is lost
	end       context.CancelFunc
	dialing   chan struct{} // holds an item while a connection is being made
	done      chan struct{} // closed when the host is lost for good

	mu      sync.Mutex
	links   []*link
	reason  error // why no connection will be made any more
	reviver bool  // somebody tries to reach the host again
}

// opener makes a connection. wrap is to be put around what carries it.
type opener func(ctx context.Context, wrap func(net.Conn) net.Conn) (*ssh.Client, error)

func newPool(name string, open opener, lostAfter time.Duration) *pool {
	p := &pool{name: name, open: open, lostAfter: lostAfter, dialing: make(chan struct{}, 1), done: make(chan struct{})}
	p.context, p.end = context.WithCancel(context.Background())
	return p
}

// connect makes the first connection and returns the server's version.
func (p *pool) connect(ctx context.Context) (version string, err error) {
	l, _, err := p.take(ctx)
	if err != nil {
		return "", err
	}
	defer p.release(l)
	return string(l.client.ServerVersion()), nil
}

// take returns a connection that may take another channel, which is counted until it is released. Fresh tells that nothing else
// was ever done with it.
func (p *pool) take(ctx context.Context) (l *link, fresh bool, err error) {
	if l, err := p.pick(); l != nil || err != nil {
		return l, false, err
	}
	select {
	case p.dialing <- struct{}{}:
		defer func() { <-p.dialing }()
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	if l, err := p.pick(); l != nil || err != nil { // another call has made one meanwhile
		return l, false, err
	}
	l, err = p.dial(ctx)
	return l, true, err
}

// pick returns the first connection that has room; nil is none.
func (p *pool) pick() (*link, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason != nil {
		return nil, p.reason
	}
	for _, l := range p.links {
		if !l.full {
			l.uses++
			return l, nil
		}
	}
	if len(p.links) == maxLinks {
		return nil, fmt.Errorf("%s refuses more sessions on %d connections; raise MaxSessions in its sshd_config", p.name, maxLinks)
	}
	return nil, nil
}

// dial makes a connection, and watches over it.
func (p *pool) dial(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.context, cancel)()
	l := &link{uses: 1}
	l.alive, l.end = context.WithCancel(context.Background())
	client, err := p.open(ctx, func(conn net.Conn) net.Conn {
		l.conn = &heardConn{Conn: conn}
		l.conn.heard.Store(time.Now().UnixNano())
		return l.conn
	})
	if err != nil {
		l.end()
		return nil, p.explain(ctx, err)
	}
	l.client = client
	p.mu.Lock()
	reason := p.reason
	if reason == nil {
		p.links = append(p.links, l)
	}
	p.mu.Unlock()
	if reason != nil {
		l.end()
		_ = client.Close()
		return nil, reason
	}
	go p.watch(l)
	return l, nil
}

// explain makes one that says where to of the error of a connection that could not be made.
func (p *pool) explain(ctx context.Context, err error) error {
	if reason := p.why(); reason != nil {
		return reason
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var refused *sshclient.Error
	if errors.As(err, &refused) {
		return &AccessError{Host: p.name, Message: refused.Message, Hint: refused.Hint}
	}
	return lost(p.name, err)
}

// AccessError is a host.ErrRefused with the reason.
type AccessError struct {
	Host    string
	Message string
	Hint    string // what to do about it
}

func (e *AccessError) Error() string {
	text := "cannot log in to " + e.Host + ": " + e.Message
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Unwrap is host.ErrRefused.
func (e *AccessError) Unwrap() error { return host.ErrRefused }

// lost is host.ErrLost with where and why.
func lost(name string, err error) error {
	return fmt.Errorf("%w: %s: %w", host.ErrLost, name, err)
}

// watch tries a connection again and again until it is over.
func (p *pool) watch(l *link) {
	interval := min(keepAlive, p.lostAfter/4)
	ended := make(chan error, 1)
	go func() { ended <- l.client.Wait() }()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	asking := make(chan struct{}, 1) // holds an item while an answer is awaited
	for {
		select {
		case err := <-ended:
			p.drop(l, err)
			return
		case <-tick.C:
		}
		if l.conn.silence() > p.lostAfter/2+interval {
			_ = l.conn.Close()
			continue
		}
		select {
		case asking <- struct{}{}:
			go func() {
				_, _, _ = l.client.SendRequest("keepalive@openssh.com", true, nil)
				<-asking
			}()
		default:
		}
	}
}

// drop forgets a connection that is over. After the last one the host is tried for a while.
func (p *pool) drop(l *link, why error) {
	_ = l.client.Close()
	p.mu.Lock()
	p.links = slices.DeleteFunc(p.links, func(other *link) bool { return other == l })
	revive := len(p.links) == 0 && p.reason == nil && !p.reviver
	p.reviver = p.reviver || revive
	p.mu.Unlock()
	l.end()
	if revive {
		until := time.Unix(0, l.conn.heard.Load()).Add(p.lostAfter)
		if least := time.Now().Add(p.lostAfter / 4); until.Before(least) { // this machine may have been asleep
			until = least
		}
		p.revive(until, why)
	}
}

// revive tries to reach the host until the time is over, and then gives it up.
func (p *pool) revive(until time.Time, why error) {
	ctx, cancel := context.WithDeadline(p.context, until)
	defer cancel()
	for {
		l, _, err := p.take(ctx)
		if err == nil {
			p.mu.Lock()
			p.reviver = false
			p.mu.Unlock()
			p.release(l)
			return
		}
		var refused *AccessError
		if errors.As(err, &refused) {
			p.finish(lost(p.name, refused))
			return
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			why = err
		}
		select {
		case <-ctx.Done():
			if !errors.Is(why, host.ErrLost) {
				why = lost(p.name, why)
			}
			p.finish(why)
			return
		case <-time.After(retryPause):
		}
	}
}

// finish ends the pool for good.
func (p *pool) finish(why error) {
	p.mu.Lock()
	if p.reason != nil {
		p.mu.Unlock()
		return
	}
	p.reason = why
	links := slices.Clone(p.links)
	p.mu.Unlock()
	p.end()
	if !errors.Is(why, errClosed) {
		close(p.done)
	}
	for _, l := range links {
		_ = l.client.Close()
	}
}

func (p *pool) close() { p.finish(errClosed) }

// why is the reason that no connection will be made any more; nil is none.
func (p *pool) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason
}

// release ends a use of a connection. One that is not the first is closed when nobody uses it.
func (p *pool) release(l *link) {
	p.mu.Lock()
	l.uses--
	l.full = false
	idle := l.uses == 0 && len(p.links) > 1 && p.links[0] != l
	if idle {
		p.links = slices.DeleteFunc(p.links, func(other *link) bool { return other == l })
	}
	p.mu.Unlock()
	if idle {
		_ = l.client.Close()
	}
}

// session opens a session, on another connection where the server refuses it, and on a new one where one turns out to be broken.
func (p *pool) session(ctx context.Context) (ssh.Channel, <-chan *ssh.Request, *link, error) {
	broken, refusals := 0, 0
	for {
		l, fresh, err := p.take(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		channel, requests, err := openChannel(ctx, l, "session", nil)
		if err == nil {
			return channel, requests, l, nil
		}
		var refused *ssh.OpenChannelError
		if errors.As(err, &refused) && fresh { // by itself, or because others were faster to use it
			refusals++
		}
		if refused != nil && refusals < maxRefusals {
			p.mu.Lock()
			l.uses--
			l.full = true
			p.mu.Unlock()
			continue
		}
		p.release(l)
		switch {
		case ctx.Err() != nil:
			return nil, nil, nil, context.Cause(ctx)
		case refused != nil:
			return nil, nil, nil, fmt.Errorf("%s refuses a session: %w", p.name, err)
		}
		if broken++; broken > 1 {
			return nil, nil, nil, lost(p.name, err)
		}
		_ = l.client.Close() // whoever watches it forgets it
		<-l.alive.Done()
	}
}

// openChannel opens a channel on a connection. The library waits for an answer for ever where the connection ends at that moment.
func openChannel(ctx context.Context, l *link, kind string, data []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	type opened struct {
		channel  ssh.Channel
		requests <-chan *ssh.Request
		err      error
	}
	result := make(chan opened, 1)
	go func() {
		channel, requests, err := l.client.OpenChannel(kind, data)
		result <- opened{channel, requests, err}
	}()
	select {
	case o := <-result:
		return o.channel, o.requests, o.err
	case <-l.alive.Done():
		return nil, nil, io.ErrUnexpectedEOF
	case <-ctx.Done():
		go func() {
			select {
			case o := <-result:
				if o.err == nil {
					go ssh.DiscardRequests(o.requests)
					_ = o.channel.Close()
				}
			case <-l.alive.Done():
			}
		}()
		return nil, nil, context.Cause(ctx)
	}
}
