package endpoint

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
)

// What a server can end with.
const (
	endWithStdin  = "stdin"  // standard input, which its owner holds open
	endWithLine   = "line"   // a line on standard input, but not its end: the owner says so, or has a successor
	endWithSocket = "socket" // the file of its socket, which its owner removes
)

// socketInterval is how often a server looks for its socket.
const socketInterval = 100 * time.Millisecond

// Owner is the program that started a server, and with which it ends.
type Owner struct {
	with   []string // endWithStdin, endWithLine, endWithSocket
	socket string
	away   time.Duration // how long nobody may be connected; 0 is for ever
}

// newOwner checks what --end-with says.
func newOwner(with []string, socket string, away time.Duration) (*Owner, error) {
	if away < 0 {
		return nil, exit.Usage("--end-unattended must be more than 0, not %s", away)
	}
	for _, what := range with {
		if !slices.Contains([]string{endWithStdin, endWithLine, endWithSocket}, what) {
			return nil, exit.Usage("--end-with must be %s, %s or %s, not %q", endWithStdin, endWithLine, endWithSocket, what)
		}
	}
	return &Owner{with, socket, away}, nil
}

// watch returns a channel that says when the owner has left the server. It must be called before the endpoints start.
func (o *Owner) watch(ctx context.Context, stdin io.Reader, endpoints []*Endpoint) <-chan string {
	left := make(chan string, 4) // one for each way
	if o == nil || len(o.with) == 0 && o.away == 0 {
		return left
	}
	if o.away > 0 {
		a := attend(o.away, func() { left <- fmt.Sprintf("no client has been connected for %s", o.away) })
		for _, e := range endpoints {
			e.Listener = &attendedListener{e.Listener, a}
		}
		context.AfterFunc(ctx, a.stop)
	}
	// Nobody may read any more what the server says: that must not end it before it has cleaned up.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if slices.Contains(o.with, endWithStdin) {
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			left <- "its owner has ended"
		}()
	}
	if slices.Contains(o.with, endWithLine) {
		go func() {
			if n, _ := stdin.Read(make([]byte, 1)); n > 0 {
				left <- "its owner has said so"
			}
		}()
	}
	if slices.Contains(o.with, endWithSocket) {
		go o.watchSocket(ctx, left)
	}
	return left
}

func (o *Owner) watchSocket(ctx context.Context, left chan<- string) {
	tick := time.NewTicker(socketInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := os.Lstat(o.socket); os.IsNotExist(err) {
				left <- "its socket was removed"
				return
			}
		}
	}
}
