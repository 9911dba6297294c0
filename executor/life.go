package executor

import (
	"context"
	"net"
	"time"
)

// attendPart and attendMost say how often a step-runner is shown that it has an owner: so many times while it would wait for one, and at
// least so often.
const attendPart, attendMost = 4, time.Minute

// Life is how long an environment lasts: Done and Err of Environment, for levels to embed. It ends once.
type Life struct {
	ended context.Context
	end   context.CancelCauseFunc
}

// NewLife is the life of an environment that has begun.
func NewLife() *Life {
	l := &Life{}
	l.ended, l.end = context.WithCancelCause(context.Background())
	return l
}

// Done is closed when the environment has ended.
func (l *Life) Done() <-chan struct{} { return l.ended.Done() }

// Err says why the environment has ended; nil before.
func (l *Life) Err() error { return context.Cause(l.ended) }

// Finish ends the environment. why wraps ErrGone; the first one counts.
func (l *Life) Finish(why error) { l.end(why) }

// Lifetime is a context that ends with the environment, for the reason of that.
func (l *Life) Lifetime() context.Context { return l.ended }

// Within is a context that ends with ctx, and with the environment, for the reason of that.
func (l *Life) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ended, func() { cancel(l.Err()) })
	return ctx, func() { stop(); cancel(nil) }
}

// Attend keeps a step-runner that lives by Lease.Args from ending itself for want of an owner, until the environment ends: it is connected to now
// and then, as long as this process has the environment. Clients are connected only while steps run.
func (l *Life) Attend(lease Lease, connect func(context.Context) (net.Conn, error)) {
	away := lease.LongestAway()
	tick := time.NewTicker(max(min(away/attendPart, attendMost), time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-l.Done():
			return
		case <-tick.C:
			ctx, cancel := context.WithTimeout(l.ended, away)
			greet(ctx, connect)
			cancel()
		}
	}
}

// greet waits for a step-runner's first word, by which it has accepted a connection. One that does not answer is for others to notice.
func greet(ctx context.Context, connect func(context.Context) (net.Conn, error)) {
	conn, err := connect(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _ = conn.Read(make([]byte, 1))
}
