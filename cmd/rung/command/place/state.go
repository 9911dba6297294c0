package place

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
)

// StateFolder is where a manager keeps its state unless it is told otherwise.
func StateFolder(p *command.Program) (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/rung", nil
	}
	if dir := p.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "rung"), nil
	}
	home := p.Getenv("HOME")
	if home == "" {
		return "", exit.Usage("there is no HOME to keep state in: use --state")
	}
	return filepath.Join(home, ".local", "state", "rung"), nil
}

// Socket is where the manager with a state folder answers `rung status`.
func Socket(state string) string { return filepath.Join(state, "manager.sock") }

// SocketError says that the path of the socket is longer than the system allows (104 bytes on some, 108 on Linux), which it calls an invalid argument.
// It returns nil for any other error.
func SocketError(state string, err error) error {
	const shortest = 103
	path := Socket(state)
	if !errors.Is(err, syscall.EINVAL) || len(path) <= shortest {
		return nil
	}
	return exit.Usage("the path of the manager's socket is too long, with %d bytes: %s", len(path), path).Hinted("name a shorter folder with --state")
}
