// Package proxy is the one way out of a job's network that leads nowhere else: an HTTP proxy that connects to what a policy lets through.
//
//	job ──CONNECT host:port, GET http://host/──> Proxy ──> egress.Policy.Names ──> addresses of the name ──> egress.Policy.Check ──> connection
//
// It resolves names itself and connects to the address that it has checked, so that a name which changes its address between the two is no
// way around. What is not TCP has no way through it.
package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/rungci/rung/internal/egress"
)

const (
	// dialTime bounds resolving a name and connecting to one of its addresses.
	dialTime = 30 * time.Second
	// headerTime bounds how long a request's header may take, and idleTime how long a connection may wait for the next one.
	headerTime = 30 * time.Second
	idleTime   = 2 * time.Minute
	// maxHeader bounds the header of a request, in bytes.
	maxHeader = 64 << 10
	// maxConnections bounds the connections to the proxy. Further ones wait.
	maxConnections = 1024
)

// Proxy connects a job to what its policy lets through.
type Proxy struct {
	Policy egress.Policy
	// Own are addresses of the machine that the job runs on. Those of the network namespace that the proxy is in are found without.
	Own []netip.Addr
	// Resolve returns the addresses of a name; nil asks the name servers of the system.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an address that was let through; nil is the system's.
	Dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// silent is the log of what clients do wrong: they could fill any other, and whoever reads it may have gone.
var silent = log.New(io.Discard, "", 0)

// deniedError is the reason why something is not let through.
type deniedError struct{ reason string }

func (e *deniedError) Error() string { return e.reason }

// Serve serves a listener until that is closed.
func (p *Proxy) Serve(l net.Listener) error {
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.Host = r.Out.URL.Host }, // that of the header may be another one
		Transport: &http.Transport{
			DialContext:        func(ctx context.Context, _, address string) (net.Conn, error) { return p.connect(ctx, address) },
			DisableCompression: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: idleTime, MaxResponseHeaderBytes: 1 << 20,
		},
		FlushInterval: -1, ErrorLog: silent,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { refuse(w, r.URL.Host, err) },
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodConnect:
				p.tunnel(w, r)
			case r.URL.Scheme == "http" && r.URL.Host != "":
				forward.ServeHTTP(w, r)
			default:
				http.Error(w, "this is the proxy of the job's network policy: it takes CONNECT, and requests for http:// addresses", http.StatusBadRequest)
			}
		}),
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader, ErrorLog: silent,
	}
	return server.Serve(&limited{l, make(chan struct{}, maxConnections)})
}

// refuse answers a request that was not let through, or that led to nobody.
func refuse(w http.ResponseWriter, host string, err error) {
	status := http.StatusBadGateway
	var denied *deniedError
	if errors.As(err, &denied) {
		status = http.StatusForbidden
	}
	w.Header().Set("X-Rung-Network", "refused")
	http.Error(w, fmt.Sprintf("%s cannot be reached: %v", strconv.QuoteToASCII(host), err), status)
}

// tunnel answers CONNECT.
func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	to, err := p.connect(context.WithoutCancel(r.Context()), r.Host) // a client may have sent all that it will
	if err != nil {
		refuse(w, r.Host, err)
		return
	}
	defer to.Close()
	from, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer from.Close()
	if _, err := io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(to, rest(buffered.Reader, from))
		closeWrite(to)
	}()
	_, _ = io.Copy(from, to)
	closeWrite(from)
	<-done
}

// rest is what comes from a connection of which a reader may have read too much.
func rest(r *bufio.Reader, conn net.Conn) io.Reader {
	if n := r.Buffered(); n > 0 {
		return io.MultiReader(io.LimitReader(r, int64(n)), conn)
	}
	return conn
}

// closeWrite ends one direction of a connection, and both where it has but one.
func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		return
	}
	_ = conn.Close()
}

// connect connects to a host and port if the policy lets it through.
func (p *Proxy) connect(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &deniedError{"it is not a host and a port"}
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 {
		return nil, &deniedError{"its port is not a number from 1 to 65535"}
	}
	addresses, err := p.addresses(ctx, host, uint16(port))
	if err != nil {
		return nil, err
	}
	dial := p.Dial
	if dial == nil {
		dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", to.String())
		}
	}
	for _, to := range addresses {
		var conn net.Conn
		if conn, err = dial(ctx, to); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// addresses are those of a host that the policy lets through; there is at least one.
func (p *Proxy) addresses(ctx context.Context, host string, port uint16) (all []netip.AddrPort, err error) {
	own, err := p.own()
	if err != nil {
		return nil, fmt.Errorf("finding the machine's own addresses: %w", err)
	}
	if address, err := netip.ParseAddr(host); err == nil {
		to := netip.AddrPortFrom(address, port)
		if err := p.Policy.Check(to, false, own); err != nil {
			return nil, &deniedError{err.Error()}
		}
		return []netip.AddrPort{to}, nil
	}
	if !p.Policy.Names(host, port) {
		return nil, &deniedError{fmt.Sprintf("the network policy %q does not list it", p.Policy)}
	}
	resolve := p.Resolve
	if resolve == nil {
		resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip", host+".") // no other domain is tried
		}
	}
	found, err := resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	var reason error
	for _, address := range found {
		to := netip.AddrPortFrom(address.Unmap(), port)
		if err := p.Policy.Check(to, true, own); err != nil {
			reason = err
			continue
		}
		all = append(all, to)
	}
	switch {
	case len(all) > 0:
		return all, nil
	case reason != nil:
		return nil, &deniedError{"its name leads elsewhere: " + reason.Error()}
	}
	return nil, errors.New("its name has no address")
}

// own are the addresses of this machine, as they are now, and those that the proxy was told.
func (p *Proxy) own() ([]netip.Addr, error) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	out := slices.Clone(p.Own)
	for _, at := range found {
		if network, ok := at.(*net.IPNet); ok {
			if address, ok := netip.AddrFromSlice(network.IP); ok {
				out = append(out, address.Unmap())
			}
		}
	}
	return append(out, gateways()...), nil
}
