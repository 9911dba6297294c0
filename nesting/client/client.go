// Package client calls the service of a host that makes virtual machines in its slots: GitLab's nesting, which gitlab-runner uses on macOS
// (vm_isolation).
//
//	a machine of the fleet ──host.Dial──> nesting's socket ──Create(image, slot)──> a virtual machine, whose address the host can reach
//
// The service has no encryption and no credentials: whoever reaches its socket may do everything. It is called through the connection to its host alone.
package client

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	nestingv0 "github.com/rungci/rung/api/gitlab/nesting/v0"
)

const (
	// deleteTime bounds one call of Delete, as gitlab-runner does.
	deleteTime = time.Minute
	// maxAnswer bounds an answer, in bytes: a list of some ten thousand machines.
	maxAnswer = 1 << 20
)

// Options say where the service is.
type Options struct {
	// Target is its address as seen from its host: "unix:///PATH", "unix:PATH" or "HOST:PORT", with "tcp://" or without. See Socket for the one that it has by
	// itself.
	Target string
	// Dial connects to a "unix" socket or a "tcp" port as seen from the host: Dial of its host.Host.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Config is given to the service if it has none yet: JSON, as vm_isolation.nesting_config has it.
	Config []byte
}

// Client calls the service of one host. Its methods are safe for concurrent use.
type Client struct {
	connection *grpc.ClientConn
	service    nestingv0.NestingClient
	config     []byte
}

// VM is a virtual machine.
type VM struct {
	ID, Image string
	// Addr is where it is reached from the host, as host:port or without a port.
	Addr string
}

// New makes a client. Nothing is asked of the service yet.
func New(o Options) (*Client, error) {
	network, address, err := split(o.Target)
	if err != nil {
		return nil, err
	}
	connection, err := grpc.NewClient("passthrough:///nesting",
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return o.Dial(ctx, network, address) }))
	if err != nil {
		return nil, fmt.Errorf("the nesting service at %s: %w", o.Target, err)
	}
	return &Client{connection: connection, service: nestingv0.NewNestingClient(connection), config: o.Config}, nil
}

// split is the network and the address of a target.
func split(target string) (network, address string, err error) {
	switch {
	case strings.HasPrefix(target, "unix://"):
		network, address = "unix", strings.TrimPrefix(target, "unix://")
		if !strings.HasPrefix(address, "/") {
			return "", "", fmt.Errorf("the path of the nesting service must be absolute after unix://, not %q; unix:PATH is for others", target)
		}
	case strings.HasPrefix(target, "unix:"):
		network, address = "unix", strings.TrimPrefix(target, "unix:")
	default:
		network, address = "tcp", strings.TrimPrefix(target, "tcp://")
		if _, _, err := net.SplitHostPort(address); err != nil {
			return "", "", fmt.Errorf("the address of the nesting service must be unix:PATH or HOST:PORT, not %q", target)
		}
	}
	if address == "" {
		return "", "", fmt.Errorf("the address of the nesting service is empty in %q", target)
	}
	return network, address, nil
}

// Socket is where the service listens on a system (as GOOS names it) if nobody has said where, in the environment of its user.
func Socket(system string, getenv func(string) string) string {
	if named := getenv("NESTING_SOCKET"); named != "" {
		return named
	}
	switch system {
	case "darwin":
		return getenv("HOME") + "/Library/Application Support/nesting.sock"
	case "windows":
		return getenv("LOCALAPPDATA") + `\nesting.sock`
	}
	return cmp.Or(getenv("XDG_RUNTIME_DIR"), getenv("HOME")) + "/nesting.sock"
}

// Create makes a virtual machine of an image and waits until it has an address. One that has the slot is deleted first, and returned as stomped: what an earlier
// job has left. A slot below 0 is none.
func (c *Client) Create(ctx context.Context, image string, slot int) (vm VM, stomped string, err error) {
	request := &nestingv0.CreateRequest{Name: image}
	if slot >= 0 {
		number := int32(slot)
		request.Slot = &number
	}
	answer, err := call(ctx, c, "create a virtual machine of "+image, func(ctx context.Context) (*nestingv0.CreateResponse, error) {
		return c.service.Create(ctx, request)
	})
	switch {
	case err != nil:
		return VM{}, "", err
	case answer.GetVm().GetId() == "" || answer.GetVm().GetAddr() == "":
		return VM{}, "", fmt.Errorf("cannot create a virtual machine of %s: the nesting service has answered without its ID or its address", image)
	}
	return machine(answer.GetVm()), answer.GetStompedVmId(), nil
}

func machine(vm *nestingv0.VirtualMachine) VM {
	return VM{ID: vm.GetId(), Image: vm.GetName(), Addr: vm.GetAddr()}
}

// Delete ends a virtual machine. One that does not exist is no error where the service says so.
func (c *Client) Delete(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, deleteTime, fmt.Errorf("the virtual machine %s was not deleted within %s", id, deleteTime))
	defer cancel()
	_, err := call(ctx, c, "delete the virtual machine "+id, func(ctx context.Context) (*nestingv0.DeleteResponse, error) {
		return c.service.Delete(ctx, &nestingv0.DeleteRequest{Id: id})
	})
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

// List is all virtual machines of the host.
func (c *Client) List(ctx context.Context) ([]VM, error) {
	answer, err := call(ctx, c, "list virtual machines", func(ctx context.Context) (*nestingv0.ListResponse, error) {
		return c.service.List(ctx, &nestingv0.ListRequest{})
	})
	if err != nil {
		return nil, err
	}
	out := make([]VM, 0, len(answer.GetVms()))
	for _, vm := range answer.GetVms() {
		out = append(out, machine(vm))
	}
	return out, nil
}

// Close closes the connection. Virtual machines stay.
func (c *Client) Close() error { return c.connection.Close() }

// call makes a call, and once more if the service had no configuration. The service has one code for "not initialized" and "already initialized" and tells them
// apart by words, so Init is tried and whoever was first has done it.
func call[A any](ctx context.Context, c *Client, what string, do func(context.Context) (A, error)) (A, error) {
	answer, err := do(ctx)
	if status.Code(err) == codes.FailedPrecondition {
		_, wrong := c.service.Init(ctx, &nestingv0.InitRequest{Config: c.config})
		switch status.Code(wrong) {
		case codes.OK, codes.FailedPrecondition:
			answer, err = do(ctx)
		default:
			return answer, fmt.Errorf("cannot initialize the nesting service with nesting_config: %w", wrong)
		}
	}
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return answer, fmt.Errorf("cannot %s: %w", what, context.Cause(ctx))
	case status.Code(err) == codes.Unavailable:
		return answer, fmt.Errorf("cannot %s: the nesting service does not answer; `nesting serve` must run on the host as the user of the connection: %w", what, err)
	}
	return answer, fmt.Errorf("cannot %s: %w", what, err)
}
