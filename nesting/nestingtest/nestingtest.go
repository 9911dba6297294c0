// Package nestingtest is a machine that makes virtual machines in its slots, as GitLab's nesting does, for tests. Its hypervisor is made up; its service, its sockets
// and its SSH servers are real.
package nestingtest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	nestingv0 "github.com/rungci/rung/api/gitlab/nesting/v0"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/host/sshd"
)

// RunsOn is the variable that tells a command which machine it runs on: the ID of a virtual machine, or Outer.
const RunsOn = "RUNS_ON"

// Outer is the name of the machine itself.
const Outer = "outer"

// Machine is a machine with nesting: an SSH server, through which its socket and its virtual machines are reached, and in no other way. They are SSH servers, too.
type Machine struct {
	nestingv0.UnimplementedNestingServer
	t       *testing.T
	folder  string
	Key     []byte // of whoever may log in, and KeyFile is a file of it
	KeyFile string
	Address string // of its SSH server
	Socket  string // of its service
	serving *grpc.Server

	mu     sync.Mutex
	given  string // to Init
	slots  map[int32]string
	vms    map[string]*nested
	made   int
	refuse func(ctx context.Context, call string) error
}

// patience is how long a test waits for what happens.
const patience = time.Minute

// Refusal is how the service refuses a call, as its hypervisors do.
func Refusal(why string) error { return status.Error(codes.Unknown, why) }

// nested is a virtual machine.
type nested struct {
	*nestingv0.VirtualMachine
	address string // of its SSH server, as nobody but its machine has it
	stop    func()
}

// named is a host whose commands know what they run on.
type named struct {
	host.Host
	name   string
	socket string // of its service; empty: it has none
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// Exec implements host.Host.
func (n *named) Exec(ctx context.Context, c *host.Command) (host.Process, error) {
	with := *c
	with.Env = append(slices.Clone(c.Env), RunsOn+"="+n.name, "NESTING_SOCKET="+n.socket)
	return n.Host.Exec(ctx, &with)
}

// Dial implements host.Host.
func (n *named) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if n.dial != nil {
		return n.dial(ctx, network, address)
	}
	return n.Host.Dial(ctx, network, address)
}

// New makes one that ends with the test.
func New(t *testing.T) *Machine {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("commands of this test are those of a POSIX shell")
	}
	folder, err := os.MkdirTemp("", "nest") // sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	m := &Machine{t: t, folder: folder, Socket: filepath.Join(folder, "n.sock"), KeyFile: filepath.Join(folder, "key"), slots: map[int32]string{}, vms: map[string]*nested{}}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	m.Key = pem.EncodeToMemory(block)
	let, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{m.KeyFile: m.Key, m.authorized(): ssh.MarshalAuthorizedKey(let)} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stop func()
	m.Address, stop = m.listen(&named{local.New(), Outer, m.Socket, m.dial})
	t.Cleanup(stop)
	m.Serve()
	t.Cleanup(m.Stop)
	return m
}

func (m *Machine) authorized() string { return filepath.Join(m.folder, "authorized") }

// listen begins an SSH server.
func (m *Machine) listen(on *named) (address string, stop func()) {
	server, err := sshd.NewServer(on, m.authorized())
	if err != nil {
		m.t.Error(err)
		return "", func() {}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.t.Error(err)
		return "", func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = server.Serve(ctx, listener)
	}()
	return listener.Addr().String(), func() {
		cancel()
		<-over
	}
}

// dial is how the machine reaches its virtual machines: their addresses mean nothing elsewhere.
func (m *Machine) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network == "tcp" {
		m.mu.Lock()
		to := ""
		for _, vm := range m.vms {
			if vm.GetAddr()+":22" == address {
				to = vm.address
			}
		}
		m.mu.Unlock()
		if to == "" {
			return nil, fmt.Errorf("no virtual machine has the address %s", address)
		}
		address = to
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// Serve begins the service again, after Stop. What it knows it still knows.
func (m *Machine) Serve() {
	_ = os.Remove(m.Socket)
	listener, err := net.Listen("unix", m.Socket)
	if err != nil {
		m.t.Fatal(err)
	}
	server := grpc.NewServer()
	nestingv0.RegisterNestingServer(server, m)
	m.serving = server
	go func() { _ = server.Serve(listener) }() // which ends with Stop
}

// Stop stops the service, as a crash does. Virtual machines stay.
func (m *Machine) Stop() { m.serving.Stop() }

// Given is the configuration that the service was initialized with; empty: it was not.
func (m *Machine) Given() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.given
}

// Leave makes a virtual machine that is in no slot, and that nobody has asked for.
func (m *Machine) Leave(image string) (id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.given == "" {
		m.given = "{}"
	}
	return m.add(image)
}

// End ends a virtual machine behind the back of whoever has asked for it.
func (m *Machine) End(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end(id)
}

// called is asked before each call: whether it is refused.
func (m *Machine) called(ctx context.Context, call string) error {
	m.mu.Lock()
	refuse, given := m.refuse, m.given
	m.mu.Unlock()
	if given == "" && call != "Init" {
		return status.Error(codes.FailedPrecondition, "not initialized")
	}
	if refuse == nil {
		return nil
	}
	return refuse(ctx, call)
}

// Init implements nestingv0.NestingServer.
func (m *Machine) Init(ctx context.Context, r *nestingv0.InitRequest) (*nestingv0.InitResponse, error) {
	if err := m.called(ctx, "Init"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.given != "" {
		return nil, status.Error(codes.FailedPrecondition, "already initialized")
	}
	m.given = string(r.GetConfig())
	return &nestingv0.InitResponse{}, nil
}

// Create implements nestingv0.NestingServer.
func (m *Machine) Create(ctx context.Context, r *nestingv0.CreateRequest) (*nestingv0.CreateResponse, error) {
	if err := m.called(ctx, "Create"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := &nestingv0.CreateResponse{}
	if old := m.slots[r.GetSlot()]; r.Slot != nil && m.vms[old] != nil {
		out.StompedVmId = &old
		m.end(old)
	}
	id := m.add(r.GetName())
	if r.Slot != nil {
		m.slots[r.GetSlot()] = id
	}
	out.Vm = m.vms[id].VirtualMachine
	return out, nil
}

// add makes a virtual machine. The caller holds the lock.
func (m *Machine) add(image string) string {
	m.made++
	id := fmt.Sprintf("nesting-%d", m.made)
	vm := &nested{VirtualMachine: &nestingv0.VirtualMachine{Id: id, Name: image, Addr: fmt.Sprintf("10.99.0.%d", m.made)}}
	vm.address, vm.stop = m.listen(&named{Host: local.New(), name: id})
	m.vms[id] = vm
	m.t.Cleanup(vm.stop)
	return id
}

// end ends a virtual machine. The caller holds the lock.
func (m *Machine) end(id string) {
	go m.vms[id].stop()
	delete(m.vms, id)
}

// Delete implements nestingv0.NestingServer.
func (m *Machine) Delete(ctx context.Context, r *nestingv0.DeleteRequest) (*nestingv0.DeleteResponse, error) {
	if err := m.called(ctx, "Delete"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.vms[r.GetId()] == nil {
		return nil, status.Error(codes.NotFound, "there is no such machine")
	}
	m.end(r.GetId())
	return &nestingv0.DeleteResponse{}, nil
}

// List implements nestingv0.NestingServer.
func (m *Machine) List(ctx context.Context, _ *nestingv0.ListRequest) (*nestingv0.ListResponse, error) {
	if err := m.called(ctx, "List"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := &nestingv0.ListResponse{}
	for _, vm := range m.vms {
		out.Vms = append(out.Vms, vm.VirtualMachine)
	}
	return out, nil
}

// Refuse has the service ask before each call whether it is refused; nil: none is.
func (m *Machine) Refuse(refuse func(ctx context.Context, call string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse = refuse
}

// VMs are the IDs of the virtual machines that exist, with spaces between.
func (m *Machine) VMs() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for id := range m.vms {
		all = append(all, id)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// Await waits until these virtual machines exist, and no others.
func (m *Machine) Await(want string) {
	m.t.Helper()
	for until := time.Now().Add(patience); m.VMs() != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			m.t.Fatalf("there are %q, want %q", m.VMs(), want)
		}
	}
}
