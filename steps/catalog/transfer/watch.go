package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// What a connection may take before bytes can move.
const (
	dialTimeout = 30 * time.Second
	tlsTimeout  = 15 * time.Second
)

// shared returns the transport of all clients that have none.
var shared = sync.OnceValue(func() http.RoundTripper { return transport() })

func transport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext,
		TLSHandshakeTimeout: tlsTimeout,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // archives are compressed, and their size is compared with what is announced
		IdleConnTimeout:     DefaultStall,
	}
}

// watch ends a transfer in which nothing moves.
type watch struct {
	limit  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
	ctx    context.Context
}

func newWatch(parent context.Context, limit time.Duration) (context.Context, *watch) {
	if limit <= 0 {
		limit = DefaultStall
	}
	ctx, cancel := context.WithCancelCause(parent)
	w := &watch{limit: limit, cancel: cancel, ctx: ctx}
	w.timer = time.AfterFunc(limit, func() { cancel(&stalledError{fmt.Sprintf("nothing moved for %v", limit)}) })
	return ctx, w
}

// moved says that bytes moved.
func (w *watch) moved() { w.timer.Reset(w.limit) }

// stop ends watching, and the transfer.
func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// explain returns why a transfer was ended, where the watch ended it.
func (w *watch) explain(err error) error {
	var stalled *stalledError
	if err != nil && errors.As(context.Cause(w.ctx), &stalled) {
		return stalled
	}
	return err
}

// stalledError says why a watch ended a transfer.
type stalledError struct{ why string }

func (e *stalledError) Error() string { return e.why }

// watchedBody is the content of a request, or of an answer, with which the watch ends.
type watchedBody struct {
	io.ReadCloser
	watch *watch
	ends  bool
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.watch.moved()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.watch.explain(err)
	}
	return n, err
}

func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	if b.ends {
		b.watch.stop()
	}
	return err
}
