//go:build linux

package kubetest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
)

// forwardProtocol is that of connections to ports of pods: two streams for each, one for data and one for an error, which have the same number.
const forwardProtocol = "portforward.k8s.io"

// forward carries connections to ports of a pod's loopback address.
func (n *Node) forward(w http.ResponseWriter, r *http.Request, p *podRun) {
	if _, err := httpstream.Handshake(r, w, []string{forwardProtocol}); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var mu sync.Mutex
	failures := map[string]httpstream.Stream{} // by the number of the connection
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, answered <-chan struct{}) error {
		id := stream.Headers().Get(corev1.PortForwardRequestIDHeader)
		mu.Lock()
		defer mu.Unlock()
		switch stream.Headers().Get(corev1.StreamType) {
		case corev1.StreamTypeError: // clients open it first
			failures[id] = stream
		case corev1.StreamTypeData:
			failure := failures[id]
			if failure == nil {
				return fmt.Errorf("the connection %s has no stream for errors", id)
			}
			delete(failures, id)
			go func() {
				<-answered
				defer failure.Close()
				defer stream.Close()
				if err := p.carry(stream); err != nil {
					fmt.Fprint(failure, err)
				}
			}()
		}
		return nil
	})
	if conn == nil {
		return // it has answered
	}
	defer conn.Close()
	conn.SetIdleTimeout(streamsIdle)
	select {
	case <-conn.CloseChan():
	case <-p.gone:
	}
}

// carry carries a connection to a port of the pod until both sides have ended.
func (p *podRun) carry(stream httpstream.Stream) error {
	port, err := strconv.ParseUint(stream.Headers().Get(corev1.PortHeader), 10, 16)
	if err != nil {
		return err
	}
	to, err := p.dial(fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer to.Close()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(to, stream)
		_ = to.(*net.TCPConn).CloseWrite()
	})
	both.Go(func() {
		_, _ = io.Copy(stream, to)
		_ = stream.Close()
	})
	both.Wait()
	return nil
}

// dial connects to an address in the network of the pod.
func (p *podRun) dial(address string) (net.Conn, error) {
	found, err := p.node.engine.ContainerInspect(context.WithoutCancel(p.ctx), p.id(""), client.ContainerInspectOptions{})
	if err != nil {
		return nil, err
	}
	network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", found.Container.State.Pid))
	if err != nil {
		return nil, err
	}
	defer network.Close()
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread()
		conn, back, err := dialIn(network, address)
		if back { // else the thread ends with this, and with it what it has started
			runtime.UnlockOSThread()
		}
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}

// dialIn connects to an address in a network with the calling thread, and reports whether the thread is back in its own.
func dialIn(network *os.File, address string) (conn net.Conn, back bool, err error) {
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, true, err
	}
	defer own.Close()
	if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, true, err
	}
	conn, err = net.DialTimeout("tcp4", address, streamsTime)
	return conn, unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) == nil, err
}
