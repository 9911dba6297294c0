// Package brought is the SSH server that is brought into a container, a sandbox or a pod, which is a machine by it. Each part is this program again, with arguments for Run:
//
//	bring DIR                  copies this program there
//	serve ADDRESS [lifeline]   process 1 of the machine: collects processes that nobody else does
//	  └─> listen ADDRESS       executor/host/sshd, and below it whatever is run on the machine
//	authorize                  takes the keys that are let in from its input, and prints the fingerprint of the server's key
//	connect ADDRESS            a connection to the server, by its input and output
//
// An address is HOST:PORT, or the path of a socket.
package brought

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/internal/wholefile"
)

// Where things are in a machine.
const (
	Folder    = "/opt/rung"
	BinFolder = Folder + "/bin"
	Program   = BinFolder + "/machine"
	// RunFolder is in memory, and those who run the machine may write to it.
	RunFolder = Folder + "/run"
	// Socket is an address of the server, for machines that are reached by connect alone.
	Socket = RunFolder + "/server.sock"
)

// Files of a machine below its folder.
const (
	authorizedFile = "authorized_keys"
	hostKeyFile    = "host_key"
)

const (
	forAll = 0o755
	forOne = 0o600
	// maxKeys bounds what authorize takes, in bytes.
	maxKeys = 64 << 10
	// serverTime is how long authorize waits for a server that has just been started.
	serverTime = 20 * time.Second
	serverLook = 50 * time.Millisecond
	// lifeline makes a machine end with the input of its first process.
	lifeline = "lifeline"
)

// Arguments of Run. They follow whatever this program knows by that it is to call Run.
var (
	Authorize = []string{"authorize"}
	Connect   = []string{"connect", Socket}
	// ServeSocket is a machine at Socket that ends with the input of its first process.
	ServeSocket = []string{"serve", Socket, lifeline}
)

// Run is a part of a machine. argument is the one of this program that leads here.
func Run(argument string, args []string) error {
	const usage = "this is a part of a machine: bring DIR, serve ADDRESS [lifeline], authorize, or connect ADDRESS"
	switch {
	case len(args) == 2 && args[0] == "bring":
		return bring(args[1])
	case len(args) == 2 && args[0] == "serve":
		return serve(argument, args[1], nil)
	case len(args) == 3 && args[0] == "serve" && args[2] == lifeline:
		return serve(argument, args[1], os.Stdin)
	case len(args) == 2 && args[0] == "listen":
		return listen(RunFolder, args[1])
	case len(args) == 1 && args[0] == "authorize":
		return authorize(RunFolder, os.Stdin, os.Stdout)
	case len(args) == 2 && args[0] == "connect":
		return connect(args[1], os.Stdin, os.Stdout)
	}
	return errors.New(usage)
}

// bring copies this program to a folder, as Program is called there.
func bring(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer from.Close()
	return wholefile.Write(filepath.Join(dir, filepath.Base(Program)), forAll, func(to io.Writer) error {
		_, err := io.Copy(to, from)
		return err
	})
}

// authorize lets the keys in that it reads, and no others, and writes the fingerprint of the server's key once the server listens.
func authorize(folder string, in io.Reader, out io.Writer) error {
	keys, err := io.ReadAll(io.LimitReader(in, maxKeys))
	if err != nil {
		return fmt.Errorf("reading the keys that are let in: %w", err)
	}
	if err := wholefile.WriteText(filepath.Join(folder, authorizedFile), forOne, keys); err != nil {
		return fmt.Errorf("recording the keys that are let in: %w", err)
	}
	for until := time.Now().Add(serverTime); ; time.Sleep(serverLook) {
		key, err := os.ReadFile(filepath.Join(folder, hostKeyFile))
		switch {
		case err == nil && len(key) > 0:
			_, err := fmt.Fprintln(out, strings.TrimSpace(string(key)))
			return err
		case err != nil && !errors.Is(err, os.ErrNotExist):
			return err
		case time.Now().After(until):
			return fmt.Errorf("the machine's SSH server does not listen within %s", serverTime)
		}
	}
}

// network is that of an address.
func network(address string) string {
	if filepath.IsAbs(address) {
		return "unix"
	}
	return "tcp"
}

// connect carries what it reads to the server, and writes what comes from there, until the server ends the connection.
func connect(address string, in io.Reader, out io.Writer) error {
	conn, err := net.Dial(network(address), address)
	if err != nil {
		return fmt.Errorf("the machine's SSH server does not listen: %w", err)
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, in)
		_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	}()
	_, err = io.Copy(out, conn)
	return err
}
