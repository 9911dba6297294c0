// Package machine is what runs in the pod of a machine. All of it is this program again, whose first argument is Argument.
//
//	bring DIR         copies this program there, in an init container
//	serve ADDRESS     process 1 of the container: collects processes that nobody else does
//	  └─> listen      executor/host/sshd, and below it whatever is run on the machine
//	authorize         for who is at its standard input: takes the keys that are let in, and says the fingerprint of the server's key
package machine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/internal/wholefile"
)

// Argument is the first argument of this program as a part of a machine.
const Argument = "machine"

// Where things are in the container of a machine.
const (
	Folder    = "/opt/rung"
	BinFolder = Folder + "/bin"
	Program   = BinFolder + "/machine"
	RunFolder = Folder + "/run"
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
)

// Run is a part of a machine.
func Run(args []string) error {
	const usage = "this is started by the plugin kubernetes, in the pod of a machine: bring DIR, serve ADDRESS or authorize"
	switch {
	case len(args) == 2 && args[0] == "bring":
		return bring(args[1])
	case len(args) == 2 && args[0] == "serve":
		return serve(args[1])
	case len(args) == 2 && args[0] == "listen":
		return listen(RunFolder, args[1])
	case len(args) == 1 && args[0] == "authorize":
		return authorize(RunFolder, os.Stdin, os.Stdout)
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
