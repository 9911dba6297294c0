// Package winrm is a Windows machine behind WinRM as a host (WS-Management, MS-WSMV). It has run against a server of ours that is written from the
// protocol's documents, and not on Windows.
//
// A command is started by a script of PowerShell (launch.ps1), which is always the same words: it reads from its input what to start, and what follows is
// the command's. So nothing of a command is in a list of processes, in a log, or interpreted by a shell. Commands have no terminals. Each has a shell of its
// own, of which a server allows so many for a user (MaxShellsPerUser). A connection that breaks ends its commands.
package winrm

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/masterzen/winrm"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/remotefiles"
)

const (
	// tryEvery is how often a machine is looked at, and lostAfter how long it may not answer.
	tryEvery  = 3 * time.Second
	lostAfter = host.LostAfter - 4*time.Second
	// envelope bounds messages, in bytes: what servers take since Windows 7.
	envelope = 150 << 10
	// The ports of WinRM.
	plainPort, tlsPort = "5985", "5986"
)

// Options say how to reach a machine.
type Options struct {
	// Address is a name or an address, with a port or without.
	Address string
	// HTTPS is TLS below. Without it messages are sealed with a key of NTLM.
	HTTPS bool
	// User may have a domain: DOMAIN\user.
	User, Password string
	// Basic shows the password to the server, in place of NTLM. It needs HTTPS.
	Basic bool
	// Fingerprint pins the server's certificate (see Fingerprint): it is this one, or one of several with spaces between.
	// Roots are who may have signed it; nil are the system's.
	Fingerprint string
	Roots       *x509.CertPool
	// Program finds the file of a step-runner for the machine's platform, which Files and Dial need there. Nil leaves the host without.
	Program func(platform host.Platform) (file string, err error)
	// Via connects to the machine in place of this one; nil: nobody does.
	Via func(ctx context.Context, network, address string) (net.Conn, error)
	// LostAfter is how long the machine may not answer before it is given up; 0 is just under host.LostAfter.
	LostAfter time.Duration
}

// String is the options without secrets.
func (o *Options) String() string { return o.url() + " user " + strconv.Quote(o.User) }

// address is host:port.
func (o *Options) address() string {
	if _, _, err := net.SplitHostPort(o.Address); err == nil {
		return o.Address
	}
	port := plainPort
	if o.HTTPS {
		port = tlsPort
	}
	return net.JoinHostPort(o.Address, port)
}

// dial connects to an address.
func (o *Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if o.Via == nil {
		return (&net.Dialer{Timeout: connectTime}).DialContext(ctx, network, address)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	return o.Via(ctx, network, address)
}

func (o *Options) url() string {
	if o.HTTPS {
		return "https://" + o.address() + "/wsman"
	}
	return "http://" + o.address() + "/wsman"
}

// Host is a machine behind WinRM.
type Host struct {
	options  Options
	client   *winrm.Client
	platform host.Platform
	files    *remotefiles.Client
	putting  puts

	life context.Context
	lose context.CancelCauseFunc
	done chan struct{} // closed when the machine is lost
}

var _ host.Host = (*Host)(nil)

// architectures are what Windows calls those that Go knows.
var architectures = map[string]string{"AMD64": "amd64", "ARM64": "arm64", "x86": "386"}

// New connects to a machine and finds out what it is.
func New(ctx context.Context, o Options) (*Host, error) {
	if o.Basic && !o.HTTPS {
		return nil, errors.New("basic authentication shows the password to everybody on the way: use HTTPS, or NTLM")
	}
	h := &Host{options: o, done: make(chan struct{})}
	h.life, h.lose = context.WithCancelCause(context.Background())
	parameters := winrm.NewParameters(fmt.Sprintf("PT%dS", int(operationTime.Seconds())), "en-US", envelope)
	parameters.TransportDecorator = func() winrm.Transporter { return &transport{options: &h.options, life: h.life} }
	where, port, err := net.SplitHostPort(o.address())
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("%q is not a port", port)
	}
	if h.client, err = winrm.NewClientWithParameters(winrm.NewEndpoint(where, number, o.HTTPS, false, nil, nil, nil, 0), o.User, o.Password, parameters); err != nil {
		return nil, err
	}
	h.files = &remotefiles.Client{Run: h.runFiles}
	if err := h.begin(ctx); err != nil {
		h.lose(net.ErrClosed)
		return nil, fmt.Errorf("connecting to %s: %w", h.Name(), err)
	}
	go h.attend()
	return h, nil
}

// begin asks for the platform.
func (h *Host) begin(ctx context.Context) error {
	out, _, code, err := h.script(ctx, "echo %PROCESSOR_ARCHITECTURE%", nil)
	if err != nil {
		return err
	}
	arch := architectures[strings.TrimSpace(out)]
	if code != 0 || arch == "" {
		return fmt.Errorf("its architecture is %q, which is not known", strings.TrimSpace(out))
	}
	h.platform = host.Platform{OS: "windows", Arch: arch}
	return nil
}

// attend looks whether the machine still answers.
func (h *Host) attend() {
	limit := cmp.Or(h.options.LostAfter, lostAfter)
	every := min(tryEvery, limit/4)
	last := time.Now()
	for {
		select {
		case <-h.life.Done():
			return
		case <-time.After(every):
		}
		ctx, cancel := context.WithTimeout(h.life, every)
		conn, err := h.options.dial(ctx, "tcp", h.options.address())
		cancel()
		switch {
		case h.life.Err() != nil:
			return
		case err == nil:
			_ = conn.Close()
			last = time.Now()
		case time.Since(last) > limit:
			h.lose(fmt.Errorf("%w: %s has not answered for %s: %w", host.ErrLost, h.Name(), limit, err))
			close(h.done)
			return
		}
	}
}

// Name is winrm://user@host:port.
func (h *Host) Name() string { return "winrm://" + h.options.User + "@" + h.options.address() }

// Platform is what the machine says.
func (h *Host) Platform() host.Platform { return h.platform }

// Path has the rules for paths on the machine.
func (h *Host) Path() host.Paths { return host.PathsOf(h.platform.OS) }

// Files are those of the machine. They need Options.Program.
func (h *Host) Files() host.Files { return h.files }

// Dial connects to a socket or port on the machine. It needs Options.Program.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "unix" && network != "tcp" {
		return nil, fmt.Errorf("%q is not a network that can be reached through %s; it must be unix or tcp", network, h.Name())
	}
	return h.files.Dial(ctx, network, address)
}

// Done is closed when the machine is lost for good.
func (h *Host) Done() <-chan struct{} { return h.done }

// Err is why Done is closed.
func (h *Host) Err() error {
	select {
	case <-h.done:
		return context.Cause(h.life)
	default:
		return nil
	}
}

// Close closes the connections, which ends the commands under way.
func (h *Host) Close() error {
	h.lose(net.ErrClosed)
	return nil
}

// runFiles runs the program for files on the machine.
func (h *Host) runFiles(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) (int, error) {
	if h.options.Program == nil {
		return -1, errors.New("there is no program that handles files on " + h.Name())
	}
	file, err := h.options.Program(h.platform)
	if err != nil {
		return -1, err
	}
	program, err := h.Put(ctx, file)
	if err != nil {
		return -1, err
	}
	p, err := h.Exec(ctx, &host.Command{Args: append([]string{program, "host"}, args...), Stdin: in, Stdout: out, Stderr: errs})
	if err != nil {
		return -1, err
	}
	return p.Wait()
}
