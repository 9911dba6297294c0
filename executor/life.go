package executor

import "context"

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
