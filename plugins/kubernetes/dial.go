package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"github.com/rungci/rung/internal/kube"
)

// maxRefusal bounds what an API server may say of a port that cannot be connected to, in bytes.
const maxRefusal = 4 << 10

// dialPod connects to a port of a pod's loopback address through the API server, over WebSockets, or SPDY where the server does not know them for that.
func dialPod(ctx context.Context, c *kube.Client, namespace, name string, port int) (net.Conn, error) {
	dialer, err := dialerOf(c, namespace, name)
	if err != nil {
		return nil, err
	}
	type dialed struct {
		conn httpstream.Connection
		err  error
	}
	done := make(chan dialed, 1)
	go func() { // it knows no context
		conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		done <- dialed{conn, err}
	}()
	var conn httpstream.Connection
	select {
	case d := <-done:
		if d.err != nil {
			return nil, d.err
		}
		conn = d.conn
	case <-ctx.Done():
		go func() {
			if d := <-done; d.err == nil {
				_ = d.conn.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
	f, err := newForwarded(conn, port)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return f, nil
}

// dialerOf makes connections of streams to a pod.
func dialerOf(c *kube.Client, namespace, name string) (httpstream.Dialer, error) {
	to := c.REST.Post().Namespace(namespace).Resource("pods").Name(name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(c.Config)
	if err != nil {
		return nil, err
	}
	sockets, err := portforward.NewSPDYOverWebsocketDialer(to, c.Config)
	if err != nil {
		return nil, err
	}
	older := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, to)
	return portforward.NewFallbackDialer(sockets, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// forwarded is a connection to a port of a pod.
type forwarded struct {
	httpstream.Stream
	conn    httpstream.Connection
	refused chan struct{} // closed when the other end has said all that it says of errors
	reason  error
	once    sync.Once
}

func newForwarded(conn httpstream.Connection, port int) (*forwarded, error) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0") // a connection has one
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failure, err := conn.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	_ = failure.Close() // nothing is written there
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	f := &forwarded{Stream: data, conn: conn, refused: make(chan struct{})}
	go func() {
		text, err := io.ReadAll(io.LimitReader(failure, maxRefusal))
		if said := strings.TrimSpace(string(text)); said != "" {
			f.reason = fmt.Errorf("the port %d of the pod: %s", port, said)
		} else if err != nil {
			f.reason = err
		}
		close(f.refused)
	}()
	return f, nil
}

// Read says why the other end has ended, if that has said it.
func (f *forwarded) Read(p []byte) (int, error) {
	n, err := f.Stream.Read(p)
	if err != nil {
		select {
		case <-f.refused:
			if errors.Is(err, io.EOF) && f.reason != nil {
				err = f.reason
			}
		default:
		}
	}
	return n, err
}

// CloseWrite ends what is written, and lets the other end go on.
func (f *forwarded) CloseWrite() error { return f.Stream.Close() }

func (f *forwarded) Close() (err error) {
	f.once.Do(func() {
		_ = f.Reset()
		err = f.conn.Close()
	})
	return err
}

func (*forwarded) LocalAddr() net.Addr              { return forwardAddress{} }
func (*forwarded) RemoteAddr() net.Addr             { return forwardAddress{} }
func (*forwarded) SetDeadline(time.Time) error      { return errors.ErrUnsupported }
func (*forwarded) SetReadDeadline(time.Time) error  { return errors.ErrUnsupported }
func (*forwarded) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

// forwardAddress is that of either end.
type forwardAddress struct{}

func (forwardAddress) Network() string { return "portforward" }
func (forwardAddress) String() string  { return "pod" }
