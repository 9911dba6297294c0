package proxy

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
)

// Port is where the proxy listens.
const Port = 3128

// Memory and PIDs bound the process that a proxy runs in, in bytes, and in processes and threads.
const (
	Memory = 256 << 20
	PIDs   = 256
)

// Environ is the environment of that process: its memory is kept within its bounds, and a crash tells nothing of the jobs.
func Environ() []string {
	return []string{"GODEBUG=netdns=go", "GOTRACEBACK=none", "GOGC=100", "GOMEMLIMIT=" + strconv.Itoa(Memory/2)}
}

// ListenIn listens on the address that this machine has in a network, and on no other: nobody else reaches the proxy.
func ListenIn(network netip.Prefix) (net.Listener, error) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, at := range found {
		its, ok := at.(*net.IPNet)
		if !ok {
			continue
		}
		if address, ok := netip.AddrFromSlice(its.IP); ok && network.Contains(address.Unmap()) {
			return net.Listen("tcp", net.JoinHostPort(address.Unmap().String(), strconv.Itoa(Port)))
		}
	}
	return nil, fmt.Errorf("this machine has no address in the network %s, where the proxy of the job's network policy is to listen", network)
}

// ListenWithin is ListenIn in the network namespace of a file, such as those of ip netns. Connections are made from that of this process.
func ListenWithin(namespace string, network netip.Prefix) (l net.Listener, err error) {
	listen := func() (err error) {
		l, err = ListenIn(network)
		return err
	}
	return l, within(namespace, listen)
}

// limited is a listener with so many connections at once.
type limited struct {
	net.Listener
	slots chan struct{}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	l.slots <- struct{}{}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &counted{Conn: conn, free: sync.OnceFunc(func() { <-l.slots })}, nil
}

// counted is a connection that frees its slot.
type counted struct {
	net.Conn
	free func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// CloseWrite ends the direction to the other side.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

// Env are the variables by which most programs find a proxy. direct are names and networks that are reached without it.
func Env(at netip.AddrPort, direct []string) map[string]string {
	way, without := "http://"+at.String(), strings.Join(append([]string{"localhost", "127.0.0.1", "::1"}, direct...), ",")
	out := map[string]string{}
	for name, value := range map[string]string{"http_proxy": way, "https_proxy": way, "all_proxy": way, "no_proxy": without} {
		out[name], out[strings.ToUpper(name)] = value, value
	}
	return out
}
