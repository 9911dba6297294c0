// Package local is this machine as a host: commands are processes of this user, and files are handled directly.
package local

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/internal/scarcity"
)

// Name is what this machine is called in handles and messages.
const Name = "local"

// Host is this machine.
type Host struct{}

// New returns this machine.
func New() *Host { return &Host{} }

var _ host.Host = (*Host)(nil)

// Name returns "local".
func (*Host) Name() string { return Name }

// Platform is that of this program.
func (*Host) Platform() host.Platform {
	return host.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
}

// Path has the rules for paths on this machine.
func (*Host) Path() host.Paths { return host.PathsOf(runtime.GOOS) }

// Dial connects to a socket or port.
func (*Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}

// Put returns the absolute path of the file itself.
func (*Host) Put(_ context.Context, file string) (string, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a program file", path)
	}
	return path, nil
}

// Files are those on this machine.
func (*Host) Files() host.Files { return Files{} }

// Done is never closed.
func (*Host) Done() <-chan struct{} { return nil }

// Err returns nil.
func (*Host) Err() error { return nil }

// Close does nothing.
func (*Host) Close() error { return nil }

// baseNames are the variables that a command gets from this program's environment: what programs need to start, to find the
// user's files and to speak the user's language. Secrets that this program was given are not among them.
var baseNames = map[string][]string{
	"windows": {
		"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATH", "PATHEXT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "HOMEDRIVE", "HOMEPATH",
		"APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE",
	},
	"": {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "TZ", "LANG", "LC_ALL", "LC_CTYPE", "XDG_RUNTIME_DIR"},
}

// environ is the part of an environment that commands get, with the command's variables over it, each name once.
func environ(command *host.Command, around []string) []string {
	windows := runtime.GOOS == "windows"
	key := func(name string) string {
		if windows {
			return strings.ToUpper(name)
		}
		return name
	}
	names := baseNames[""]
	if windows {
		names = baseNames["windows"]
	}
	base := map[string]bool{}
	for _, name := range names {
		base[name] = true
	}
	var out []string
	index := map[string]int{}
	set := func(pair string) {
		name, _, _ := strings.Cut(pair, "=")
		if i, known := index[key(name)]; known {
			out[i] = pair
			return
		}
		index[key(name)] = len(out)
		out = append(out, pair)
	}
	for _, pair := range around {
		if name, _, _ := strings.Cut(pair, "="); base[key(name)] {
			set(pair)
		}
	}
	if command.Terminal != nil {
		set("TERM=" + command.Terminal.TERM())
	}
	for _, pair := range command.Env {
		set(pair)
	}
	return out
}

// named makes an error satisfy host.ErrNoSpace where a full disk is why.
func named(err error) error {
	if err == nil || !scarcity.DiskFull(err) {
		return err
	}
	return &noSpaceError{err}
}

type noSpaceError struct{ err error }

func (e *noSpaceError) Error() string   { return e.err.Error() }
func (e *noSpaceError) Unwrap() []error { return []error{e.err, host.ErrNoSpace} }
