// Package client is the Go client of the service: it runs lists of steps on a server and follows them.
//
//	c, err := client.Dial("unix:/run/step-runner.sock")
//	…
//	status, err := c.Execute(ctx, client.Request{ID: "42", Text: "- script: make test"}, os.Stdout)
//
// A call waits for its server until its context ends. Follow calls survive a lost connection: they reconnect and resume
// where they were. Each way in which a run fails has an error type: StepFailure, Timeout, Definition, Denied, Missing, Cancelled,
// System; their Failure.Err has the code and the step.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service/codec"
)

// Client is a connection to a step-runner. It is safe for concurrent use.
type Client struct {
	conn *grpc.ClientConn
	api  runnerv1.StepRunnerClient
}

// settings are what options change.
type settings struct {
	tls   *tls.Config
	token string
	dial  func(context.Context) (net.Conn, error)
	most  int // bytes of one message
}

// Option changes how a client connects.
type Option func(*settings)

// WithTLS connects with TLS.
func WithTLS(config *tls.Config) Option { return func(s *settings) { s.tls = config } }

// WithToken sends a token with every call. Without TLS, use it on loopback addresses only: it crosses the network in clear text.
func WithToken(token string) Option { return func(s *settings) { s.token = token } }

// WithDialer connects with dial, for example to the standard input and output of `step-runner proxy` on another machine:
// see Stdio. It is called again when a connection is lost.
func WithDialer(dial func(context.Context) (net.Conn, error)) Option {
	return func(s *settings) { s.dial = dial }
}

const (
	// MaxMessage bounds a message that a client accepts, in bytes. A job can take the place of its step-runner, and what it sends is in memory several times
	// while it is decoded. The largest that a step-runner sends is an event with the outputs of a step, or with the job's definition: 256 MiB
	// (engine.MaxStepFile, executor.DefaultRequestBytes) and what JSON escapes.
	MaxMessage = 320 << 20
	// maxElements bounds the messages in a message. Those of a step-runner have a few thousand.
	maxElements = 1 << 20

	// window is how much may be under way to a client before it has read it, in bytes: of one stream, and of all together.
	window, connWindow = 4 << 20, 16 << 20
	// readBuffer is how much is taken from a connection at once, in bytes. Each connection has one, and a manager a connection for each job.
	readBuffer = 32 << 10
	// retryFirst and retryMost bound the time between two attempts to connect.
	retryFirst, retryMost = 50 * time.Millisecond, 2 * time.Second
	// aliveAfter and aliveWithin find out that a server is gone whose connection was not closed.
	aliveAfter, aliveWithin = 30 * time.Second, 20 * time.Second
)

// Dial makes a client of the server at target: "unix:/path/to/step-runner.sock" or "host:port". It does not connect yet.
func Dial(target string, opts ...Option) (*Client, error) {
	s := settings{most: MaxMessage}
	for _, opt := range opts {
		opt(&s)
	}
	dialOpts := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(connWindow), grpc.WithReadBufferSize(readBuffer),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: aliveAfter, Timeout: aliveWithin}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: retryFirst, Multiplier: 1.6, Jitter: 0.2, MaxDelay: retryMost},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(s.most), grpc.ForceCodecV2(codec.New(maxElements))),
	}
	if s.tls != nil {
		dialOpts = append(dialOpts, grpc.WithTransportCredentials(credentials.NewTLS(s.tls)))
	}
	if s.token != "" {
		dialOpts = append(dialOpts, grpc.WithPerRPCCredentials(bearer(s.token)))
	}
	if s.dial != nil {
		dialOpts = append(dialOpts, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.dial(ctx) }))
		target = "passthrough:///" + target
	}
	conn, err := grpc.NewClient(target, dialOpts...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the step-runner at %q: %w", target, err)
	}
	return &Client{conn: conn, api: runnerv1.NewStepRunnerClient(conn)}, nil
}

// Disconnect closes the connection. Runs continue without it.
func (c *Client) Disconnect() error { return c.conn.Close() }

// Conn returns the connection, for calls that this package does not wrap.
func (c *Client) Conn() *grpc.ClientConn { return c.conn }

// bearer is a token as gRPC's credentials.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: a token is fine on a loopback address.
func (bearer) RequireTransportSecurity() bool { return false }

// Run starts a run. Repeating the same request does nothing. Invalid steps return a *Definition.
func (c *Client) Run(ctx context.Context, r Request) error {
	message, err := r.message()
	if err != nil {
		return err
	}
	_, err = c.api.Run(ctx, message)
	return callError("running", r.ID, err)
}

// Status returns the status of a run.
func (c *Client) Status(ctx context.Context, id string) (*Status, error) {
	if id == "" {
		return nil, errors.New("the ID of a run must not be empty")
	}
	out, err := c.api.Status(ctx, &runnerv1.StatusRequest{Id: id})
	if err != nil {
		return nil, callError("getting the status of", id, err)
	}
	if len(out.GetRuns()) != 1 {
		return nil, fmt.Errorf("getting the status of the run %q: the server answered with %d runs", id, len(out.GetRuns()))
	}
	return fromRunStatus(out.GetRuns()[0])
}

// List returns the status of every run, in start order.
func (c *Client) List(ctx context.Context) ([]*Status, error) {
	out, err := c.api.Status(ctx, &runnerv1.StatusRequest{})
	if err != nil {
		return nil, callError("listing", "", err)
	}
	list := make([]*Status, len(out.GetRuns()))
	for i, message := range out.GetRuns() {
		if list[i], err = fromRunStatus(message); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Cancel stops a run: gracefully, or at once with force. It does not wait for the end. The code and the reason may be empty.
func (c *Client) Cancel(ctx context.Context, id string, why event.Stop, force bool) error {
	_, err := c.api.Cancel(ctx, &runnerv1.CancelRequest{Id: id, Code: string(why.Code), Reason: why.Reason, Force: force})
	return callError("cancelling", id, err)
}

// Close stops a run that has not ended, waits for its end, and removes it from the server. An unknown run is not an error.
func (c *Client) Close(ctx context.Context, id string) error {
	_, err := c.api.Close(ctx, &runnerv1.CloseRequest{Id: id})
	return callError("closing", id, err)
}

// Moved removes a paused run from the server that goes on elsewhere from its state: no other step of it runs there.
func (c *Client) Moved(ctx context.Context, id string) error {
	_, err := c.api.Close(ctx, &runnerv1.CloseRequest{Id: id, Moved: true})
	return pauseError("moving", id, err)
}

// closeWait is how long Execute waits for a run to be closed.
const closeWait = 30 * time.Second

// Execute runs steps to their end, copies their log to w, and closes the run. The error is nil when the run succeeded, and
// ErrLogLost when it did but the server could not keep all of its log. When ctx ends, or w fails, the run is stopped.
func (c *Client) Execute(ctx context.Context, r Request, w io.Writer) (*Status, error) {
	if err := c.Run(ctx, r); err != nil {
		return nil, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
		defer cancel()
		_ = c.Close(closing, r.ID) // what is not closed expires
	}()
	_, lost := c.FollowLogs(ctx, r.ID, w, LogOptions{})
	if lost != nil && !errors.Is(lost, ErrLogLost) {
		return nil, lost
	}
	status, err := c.awaitEnd(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return status, cmp.Or(status.Err(), lost)
}

// statusEvery is how often a run is asked for whose log is lost, and tells its end no more.
const statusEvery = 200 * time.Millisecond

// awaitEnd returns how a run ended. When its log has ended, so has the run.
func (c *Client) awaitEnd(ctx context.Context, id string) (*Status, error) {
	for {
		status, err := c.Status(ctx, id)
		if err != nil || status.State != event.Running {
			return status, err
		}
		select {
		case <-time.After(statusEvery):
		case <-ctx.Done():
			return nil, callError("waiting for the end of", id, context.Cause(ctx))
		}
	}
}
