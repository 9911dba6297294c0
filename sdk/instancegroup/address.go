package instancegroup

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Addresses chooses among the addresses of an instance: the first that is private as the internal one, and the first that is not as the external one. IPv4 comes before IPv6,
// or after it with preferIPv6. What is no address, or leads to no other machine, is left out.
func Addresses(preferIPv6 bool, all ...string) (internal, external string) {
	for _, six := range []bool{preferIPv6, !preferIPv6} {
		for _, text := range all {
			addr, err := netip.ParseAddr(text)
			if err != nil || addr.Unmap().Is6() != six || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsUnspecified() {
				continue
			}
			switch {
			case addr.IsPrivate() && internal == "":
				internal = text
			case !addr.IsPrivate() && external == "":
				external = text
			}
		}
	}
	return internal, external
}

// Readiness says of instances that the cloud calls running whether they can be used: once something listens on their port. The zero value is ready. It is safe for
// concurrent use.
type Readiness struct {
	// Timeout is how long one look takes at most; 0 is 2 seconds.
	Timeout time.Duration

	mu    sync.Mutex
	ready map[string]bool
}

const defaultTimeout = 2 * time.Second

// State is what to report of an instance that runs: StateRunning if it was ready before, or somebody answers at its address (host:port), else StateCreating.
func (r *Readiness) State(ctx context.Context, instance, addr string) State {
	r.mu.Lock()
	ready := r.ready[instance]
	r.mu.Unlock()
	if ready {
		return StateRunning
	}
	timeout := r.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	dialer := net.Dialer{Timeout: timeout}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return StateCreating
	}
	conn.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ready == nil {
		r.ready = map[string]bool{}
	}
	r.ready[instance] = true
	return StateRunning
}

// Forget lets go of an instance that is deleted.
func (r *Readiness) Forget(instance string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ready, instance)
}
