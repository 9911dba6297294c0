package serve

import (
	"net"
	"os"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/steps/service"
)

// checkPeer refuses a server that neither this user nor root runs: whoever made the socket first would be given what the clients send. Windows does not tell
// who is at the other end; there the folder of the socket has to keep others out.
func checkPeer(conn *net.UnixConn, user int) error {
	peer, known, err := peerUser(conn)
	if err != nil {
		return exit.Coded(exit.System, "cannot find out who runs the server: %v", err)
	}
	if !known {
		return nil
	}
	return refusePeer(peer, user)
}

// refusePeer is the error for a server of another user.
func refusePeer(peer, user int) error {
	if peer == user || peer == 0 {
		return nil
	}
	return exit.Coded(exit.Denied, "the server belongs to another user (ID %d, and this is %d)", peer, user).
		Hinted("name the socket of your own server with --socket, or run step-runner proxy as that user")
}

// checkFolder refuses the default socket in a folder that others can change.
func checkFolder() error {
	if err := service.CheckSocketFolder(); err != nil {
		return exit.Coded(exit.Denied, "the folder of the socket: %v", err).Hinted("remove it and start `step-runner serve` again, or name another socket with --socket")
	}
	return nil
}

// thisUser is the user whose servers are trusted.
func thisUser() int { return os.Geteuid() }

// control calls ask with the descriptor of a connection.
func control(conn *net.UnixConn, ask func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var asked error
	if err := raw.Control(func(fd uintptr) { asked = ask(int(fd)) }); err != nil {
		return err
	}
	return asked
}
