package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/rungci/rung/internal/kube"
	"github.com/rungci/rung/sdk/instancegroup"
)

// doors are listeners on loopback addresses of this machine, one for each machine, which lead to it through the API server. Somebody else on this machine may connect to one, and meets
// the machine's SSH server, which knows its keys.
type doors struct {
	ctx  context.Context // ends all connections
	stop context.CancelFunc
	dial func(ctx context.Context, id string) (net.Conn, error)
	log  instancegroup.Logger
	save func(map[string]int) error

	mu    sync.Mutex
	ports map[string]int // as they are on record: a process that comes after this one listens there again, so that addresses stay what they are
	all   map[string]*door
}

type door struct {
	net.Listener
	since time.Time          // when it was made
	stop  context.CancelFunc // ends its connections
}

// portsRecord is the name of the record of ports.
const portsRecord = "ports"

// dialTime is how long connecting to a pod may take.
const dialTime = 30 * time.Second

// openDoors listens where the process before this one did.
func openDoors(c *cloud) (*doors, error) {
	d := &doors{
		log: c.log, ports: map[string]int{}, all: map[string]*door{},
		dial: func(ctx context.Context, id string) (net.Conn, error) {
			return dialPod(ctx, c.cluster, c.Namespace, id, c.Port)
		},
		save: func(ports map[string]int) error { return instancegroup.Save(c.settings, portsRecord, ports) },
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	if err := instancegroup.Load(c.settings, portsRecord, &d.ports); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.ports {
		if _, err := d.listen(id); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// open is the address that leads to a machine.
func (d *doors) open(id string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.all[id]
	if one == nil {
		var err error
		if one, err = d.listen(id); err != nil {
			return "", err
		}
		if err := d.save(d.ports); err != nil {
			return "", err
		}
	}
	return one.Addr().String(), nil
}

// listen makes the door of a machine, at the port that it had if that is free. The caller holds the lock.
func (d *doors) listen(id string) (*door, error) {
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(d.ports[id])))
	if err != nil && d.ports[id] != 0 { // somebody else has it now
		l, err = net.Listen("tcp4", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("listening for connections to the machine %s: %w", id, err)
	}
	ctx, stop := context.WithCancel(d.ctx)
	one := &door{l, time.Now(), stop}
	d.all[id], d.ports[id] = one, l.Addr().(*net.TCPAddr).Port
	go d.serve(ctx, id, l)
	return one, nil
}

// serve carries connections until the listener is closed.
func (d *doors) serve(ctx context.Context, id string, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go d.carry(ctx, id, conn)
	}
}

// carry carries a connection to a machine until both sides have ended.
func (d *doors) carry(ctx context.Context, id string, conn net.Conn) {
	defer conn.Close()
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	to, err := d.dial(dialing, id)
	cancel()
	if err != nil {
		if !kube.IsGone(err) && ctx.Err() == nil {
			d.log.Warn("a machine cannot be connected to", "machine", id, "error", err)
		}
		return
	}
	defer to.Close()
	defer context.AfterFunc(ctx, func() {
		_ = to.Close()
		_ = conn.Close()
	})()
	over := make(chan struct{}, 2)
	copying := func(to, from net.Conn) {
		if _, err := io.Copy(to, from); err != nil && ctx.Err() == nil {
			d.log.Debug("a connection to a machine has ended", "machine", id, "error", err)
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		over <- struct{}{}
	}
	go copying(to, conn)
	copying(conn, to)
	// What the machine has ended is over: SSH has nothing more to say to it.
	<-over
}

// close closes the door of a machine, with its connections.
func (d *doors) close(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(id)
	if _, was := d.ports[id]; was {
		delete(d.ports, id)
		if err := d.save(d.ports); err != nil {
			d.log.Warn("the record of ports", "error", err)
		}
	}
}

// remove closes a door. The caller holds the lock.
func (d *doors) remove(id string) {
	if one := d.all[id]; one != nil {
		one.stop()
		_ = one.Close()
		delete(d.all, id)
	}
}

// keep closes the doors of machines that are gone, as a list says that was asked for at a time.
func (d *doors) keep(names map[string]bool, asked time.Time) {
	d.mu.Lock()
	var gone []string
	for id := range d.ports {
		if !names[id] && (d.all[id] == nil || d.all[id].since.Before(asked)) {
			gone = append(gone, id)
		}
	}
	d.mu.Unlock()
	for _, id := range gone {
		d.close(id)
	}
}

// shut closes all of them, and keeps the record.
func (d *doors) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop()
	for id := range d.all {
		d.remove(id)
	}
}
