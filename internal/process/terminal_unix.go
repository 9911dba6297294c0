//go:build unix

package process

import (
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

func openTerminal(spec *Spec) (*terminal, error) {
	ours, child, err := pty.Open()
	if err != nil {
		return nil, spec.fail(nil, err, "making a terminal for it: %v", err)
	}
	return &terminal{spec: spec.Terminal, ours: ours, child: child}, nil
}

// setSize sets the size of a terminal. That it cannot be set is not an error: a terminal of another size is one, too.
func setSize(terminal *os.File, size Size) {
	conn, err := terminal.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Columns})
	})
}
