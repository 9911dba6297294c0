package client_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	nestingv0 "github.com/rungci/rung/api/gitlab/nesting/v0"
	"github.com/rungci/rung/nesting/client"
)

// service is nesting as its source describes it: one configuration, and a machine for each slot.
type service struct {
	nestingv0.UnimplementedNestingServer

	mu     sync.Mutex
	config string // empty before Init
	inits  int
	vms    []*nestingv0.VirtualMachine
	slots  map[int32]string
	made   int
	empty  bool // Create answers without a machine
	refuse codes.Code
}

func (s *service) Init(_ context.Context, r *nestingv0.InitRequest) (*nestingv0.InitResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config != "" {
		return nil, status.Error(codes.FailedPrecondition, "already initialized")
	}
	if string(r.GetConfig()) == "bad" {
		return nil, status.Error(codes.Unknown, "image_directory is missing")
	}
	s.inits++
	s.config = "set:" + string(r.GetConfig())
	return &nestingv0.InitResponse{}, nil
}

func (s *service) Create(_ context.Context, r *nestingv0.CreateRequest) (*nestingv0.CreateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.config == "":
		return nil, status.Error(codes.FailedPrecondition, "not initialized")
	case s.refuse != codes.OK:
		return nil, status.Error(s.refuse, "no network is free")
	case s.empty:
		return &nestingv0.CreateResponse{}, nil
	}
	out := &nestingv0.CreateResponse{}
	if r.Slot != nil {
		if old := s.slots[r.GetSlot()]; old != "" {
			out.StompedVmId = &old
			s.vms = slices.DeleteFunc(s.vms, func(vm *nestingv0.VirtualMachine) bool { return vm.GetId() == old })
		}
	}
	s.made++
	out.Vm = &nestingv0.VirtualMachine{Id: fmt.Sprintf("nesting-%d", s.made), Name: r.GetName(), Addr: "127.0.0.1:2200"}
	s.vms = append(s.vms, out.GetVm())
	if r.Slot != nil {
		s.slots[r.GetSlot()] = out.GetVm().GetId()
	}
	return out, nil
}

func (s *service) Delete(_ context.Context, r *nestingv0.DeleteRequest) (*nestingv0.DeleteResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.vms)
	s.vms = slices.DeleteFunc(s.vms, func(vm *nestingv0.VirtualMachine) bool { return vm.GetId() == r.GetId() })
	if len(s.vms) == before {
		return nil, status.Error(codes.NotFound, "there is no such machine")
	}
	return &nestingv0.DeleteResponse{}, nil
}

func (s *service) List(context.Context, *nestingv0.ListRequest) (*nestingv0.ListResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config == "" {
		return nil, status.Error(codes.FailedPrecondition, "not initialized")
	}
	return &nestingv0.ListResponse{Vms: s.vms}, nil
}

// serve serves on a socket of its own and opens a client of it.
func serve(t *testing.T, s *service, config string) *client.Client {
	t.Helper()
	s.slots = map[int32]string{}
	socket := filepath.Join(t.TempDir(), "nesting.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	nestingv0.RegisterNestingServer(server, s)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return open(t, "unix://"+socket, config)
}

func open(t *testing.T, target, config string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{Target: target, Dial: new(net.Dialer).DialContext, Config: []byte(config)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestAJobGetsTheMachineOfItsSlot(t *testing.T) {
	s := &service{}
	c := serve(t, s, `{"image_directory":"/images"}`)
	ctx := t.Context()

	first, stomped, err := c.Create(ctx, "macos-15", 3)
	if err != nil || stomped != "" {
		t.Fatalf("got %q, %v", stomped, err)
	}
	if diff := cmp.Diff(client.VM{ID: "nesting-1", Image: "macos-15", Addr: "127.0.0.1:2200"}, first); diff != "" {
		t.Error(diff)
	}
	if s.config != `set:{"image_directory":"/images"}` || s.inits != 1 {
		t.Errorf("the service was given %q, %d times", s.config, s.inits)
	}
	second, stomped, err := c.Create(ctx, "macos-15", 3)
	if err != nil || stomped != first.ID {
		t.Errorf("a machine that was left in the slot: got %q, %v, want %q", stomped, err, first.ID)
	}
	third, stomped, err := c.Create(ctx, "macos-15", -1)
	if err != nil || stomped != "" {
		t.Errorf("a machine without a slot: got %q, %v", stomped, err)
	}
	all, err := c.List(ctx)
	if diff := cmp.Diff([]client.VM{second, third}, all); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if err := c.Delete(ctx, second.ID); err != nil {
		t.Error(err)
	}
	if err := c.Delete(ctx, second.ID); err != nil {
		t.Errorf("deleted twice: %v", err)
	}
}

func TestTwoManagersInitializeAtOnce(t *testing.T) {
	s := &service{}
	first := serve(t, s, "{}")
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if _, _, err := first.Create(t.Context(), "linux", -1); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if s.inits != 1 || s.made != 20 {
		t.Errorf("it was initialized %d times, and made %d machines", s.inits, s.made)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	for name, tt := range map[string]struct {
		service *service
		config  string
		want    string
	}{
		"a configuration that the hypervisor refuses": {&service{}, "bad", "cannot initialize the nesting service with nesting_config"},
		"a hypervisor that has no room":               {&service{refuse: codes.Unknown}, "{}", "cannot create a virtual machine of macos-15: rpc error: code = Unknown desc = no network is free"},
		"a precondition that Init does not meet":      {&service{refuse: codes.FailedPrecondition}, "{}", "no network is free"},
		"an answer without a machine":                 {&service{empty: true}, "{}", "without its ID or its address"},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, tt.service, tt.config)
			if _, _, err := c.Create(t.Context(), "macos-15", 0); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("a service that does not run", func(t *testing.T) {
		c := open(t, "unix://"+filepath.Join(t.TempDir(), "none"), "{}")
		if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "`nesting serve` must run on the host") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a job that is cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the job was cancelled"))
		c := serve(t, &service{}, "{}")
		if _, _, err := c.Create(ctx, "macos-15", 0); err == nil || !strings.Contains(err.Error(), "the job was cancelled") {
			t.Errorf("got %v", err)
		}
	})
}

func TestAddressesOfTheService(t *testing.T) {
	for target, want := range map[string]string{
		"unix:///run/nesting.sock": "unix /run/nesting.sock",
		"unix:nesting.sock":        "unix nesting.sock",
		"tcp://10.0.0.1:7000":      "tcp 10.0.0.1:7000",
		"localhost:7000":           "tcp localhost:7000",
		"unix://nesting.sock":      "must be absolute",
		"unix:":                    "is empty",
		"":                         "must be unix:PATH or HOST:PORT",
		"nesting":                  "must be unix:PATH or HOST:PORT",
	} {
		got := ""
		c, err := client.New(client.Options{Target: target, Dial: func(_ context.Context, network, address string) (net.Conn, error) {
			got = network + " " + address
			return nil, errors.New("not now")
		}})
		if err != nil {
			got = err.Error()
		} else {
			ctx, cancel := context.WithCancel(t.Context())
			_, _ = c.List(ctx)
			cancel()
			c.Close()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", target, got, want)
		}
	}
}

func TestWhereTheServiceIsIfNobodySaysSo(t *testing.T) {
	for _, tt := range []struct {
		system string
		env    map[string]string
		want   string
	}{
		{"darwin", map[string]string{"HOME": "/Users/ci"}, "/Users/ci/Library/Application Support/nesting.sock"},
		{"windows", map[string]string{"LOCALAPPDATA": `C:\Users\ci\AppData\Local`}, `C:\Users\ci\AppData\Local\nesting.sock`},
		{"linux", map[string]string{"HOME": "/home/ci", "XDG_RUNTIME_DIR": "/run/user/1000"}, "/run/user/1000/nesting.sock"},
		{"linux", map[string]string{"HOME": "/home/ci"}, "/home/ci/nesting.sock"},
		{"darwin", map[string]string{"HOME": "/Users/ci", "NESTING_SOCKET": "/tmp/n.sock"}, "/tmp/n.sock"},
	} {
		if got := client.Socket(tt.system, func(name string) string { return tt.env[name] }); got != tt.want {
			t.Errorf("%s %v: got %q, want %q", tt.system, tt.env, got, tt.want)
		}
	}
}

// The bytes are written by hand from the numbers and types of the existing service's fields.
func TestMessagesAreThoseOfTheExistingService(t *testing.T) {
	slot, stomped := int32(0), "b"
	for want, message := range map[string]proto.Message{
		"0a027b7d":                    &nestingv0.InitRequest{Config: []byte("{}")},
		"0a016d":                      &nestingv0.CreateRequest{Name: "m"},
		"0a016d1000":                  &nestingv0.CreateRequest{Name: "m", Slot: &slot}, // slot 0 is a slot
		"0a090a0161120162" + "1a0163": &nestingv0.CreateResponse{Vm: &nestingv0.VirtualMachine{Id: "a", Name: "b", Addr: "c"}},
		"0a030a01611201" + "62":       &nestingv0.CreateResponse{Vm: &nestingv0.VirtualMachine{Id: "a"}, StompedVmId: &stomped},
		"0a0161":                      &nestingv0.DeleteRequest{Id: "a"},
		"0a030a01610a030a0162":        &nestingv0.ListResponse{Vms: []*nestingv0.VirtualMachine{{Id: "a"}, {Id: "b"}}},
	} {
		got, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
		if err != nil || hex.EncodeToString(got) != want {
			t.Errorf("%T: got %x, %v, want %s", message, got, err, want)
		}
		back := message.ProtoReflect().New().Interface()
		if raw, _ := hex.DecodeString(want); proto.Unmarshal(raw, back) != nil || !proto.Equal(back, message) {
			t.Errorf("%s: read as %v", want, back)
		}
	}
	for _, name := range []string{"Init", "Create", "Delete", "List", "Shutdown"} {
		if !slices.ContainsFunc(nestingv0.Nesting_ServiceDesc.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == name }) {
			t.Errorf("there is no method %s", name)
		}
	}
	if got := nestingv0.Nesting_ServiceDesc.ServiceName; got != "nesting.Nesting" {
		t.Errorf("the service is called %q", got)
	}
}
