// Package sshd is an SSH server: for one connection that somebody else made (Serve), as that of programs which reach a machine only through the
// input and output of a command there; or for a port (Listen). It does what executor/host/ssh asks of a server, and nothing else: commands, with and
// without a terminal, and connections to sockets and ports. Whoever is let in may do all that this process may.
package sshd

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/remotefiles"
)

// endTime is how long commands may take to end by themselves when the connection has ended, and with it what they read.
const endTime = 8 * time.Second

// beginTime is how long a client may take to say who it is.
const beginTime = 30 * time.Second

// Serve serves one connection on a machine, until it ends or ctx does. Then everything that was started through it is ended.
func Serve(ctx context.Context, conn net.Conn, on host.Host) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return err
	}
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(signer)
	running, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	defer kill(nil)
	s := &server{host: on, context: running}
	if err := s.serve(ctx, conn, config); err != nil {
		return err
	}
	late := time.AfterFunc(endTime, func() { kill(errors.New("the connection has ended")) })
	defer late.Stop()
	s.busy.Wait()
	return nil
}

// serve serves a connection until it ends. What was started through it may go on.
func (s *server) serve(ctx context.Context, conn net.Conn, config *ssh.ServerConfig) error {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	begun := time.AfterFunc(beginTime, func() { _ = conn.Close() })
	c, channels, requests, err := ssh.NewServerConn(conn, config)
	begun.Stop()
	if err != nil {
		return fmt.Errorf("beginning the connection: %w", err)
	}
	defer c.Close()
	go ssh.DiscardRequests(requests)
	for asked := range channels {
		switch asked.ChannelType() {
		case "session":
			s.accept(asked, s.session)
		case "direct-streamlocal@openssh.com", "direct-tcpip":
			s.forward(asked)
		case remotefiles.Channel:
			s.accept(asked, s.files(asked.ExtraData()))
		default:
			_ = asked.Reject(ssh.UnknownChannelType, "it is not served here")
		}
	}
	return nil
}

// server is what serves a connection.
type server struct {
	host    host.Host
	context context.Context // ends what runs
	busy    sync.WaitGroup
}

// accept opens a channel and serves it beside the others.
func (s *server) accept(asked ssh.NewChannel, serve func(ssh.Channel, <-chan *ssh.Request)) {
	channel, requests, err := asked.Accept()
	if err != nil {
		return
	}
	s.busy.Go(func() { serve(channel, requests) })
}

// forward connects a channel to a socket or port.
func (s *server) forward(asked ssh.NewChannel) {
	network, address, err := destination(asked)
	if err != nil {
		_ = asked.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	s.busy.Go(func() {
		to, err := s.host.Dial(s.context, network, address)
		if err != nil {
			_ = asked.Reject(ssh.ConnectionFailed, err.Error())
			return
		}
		channel, requests, err := asked.Accept()
		if err != nil {
			_ = to.Close()
			return
		}
		go ssh.DiscardRequests(requests)
		stop := context.AfterFunc(s.context, func() { _ = to.Close(); _ = channel.Close() })
		defer stop()
		carry(channel, to)
	})
}

// destination is where a channel is to lead (RFC 4254, 7.2; PROTOCOL of OpenSSH, 2.4).
func destination(asked ssh.NewChannel) (network, address string, err error) {
	if asked.ChannelType() == "direct-tcpip" {
		var to struct {
			Host       string
			Port       uint32
			OriginHost string
			OriginPort uint32
		}
		err := ssh.Unmarshal(asked.ExtraData(), &to)
		return "tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))), err
	}
	var to struct {
		Path   string
		Origin string
		Port   uint32
	}
	err = ssh.Unmarshal(asked.ExtraData(), &to)
	return "unix", to.Path, err
}

// carry carries bytes both ways until both have ended, and closes both.
func carry(channel ssh.Channel, conn net.Conn) {
	defer channel.Close()
	defer conn.Close()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(conn, channel)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	})
	both.Go(func() {
		_, err := io.Copy(channel, conn)
		_ = channel.CloseWrite()
		if err != nil { // nobody takes what is still to come
			_ = conn.Close()
		}
	})
	both.Wait()
}

// files does something with the files of the machine, as `step-runner host` does, without a process for it.
func (s *server) files(asked []byte) func(ssh.Channel, <-chan *ssh.Request) {
	return func(channel ssh.Channel, requests <-chan *ssh.Request) {
		defer channel.Close()
		go ssh.DiscardRequests(requests)
		var args []string
		if err := json.Unmarshal(asked, &args); err != nil {
			return
		}
		code := remotefiles.Serve(s.context, s.host.Files(), args, channel, channel, channel.Stderr())
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)}))
	}
}

// session runs the command of a session.
func (s *server) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	var terminal *host.Terminal
	var process host.Process
	over := make(chan struct{}) // closed when the command has ended; nil before there is one is never waited for
	for {
		select {
		case r, open := <-requests:
			if !open { // the command goes on, and is waited for
				if process != nil {
					<-over
				}
				return
			}
			ok := false
			switch {
			case r.Type == "pty-req" && process == nil:
				terminal, ok = terminalOf(r.Payload)
			case r.Type == "window-change" && process != nil:
				if size, is := sizeOf(r.Payload); is {
					ok = process.Resize(size) == nil
				}
			case r.Type == "exec" && process == nil:
				if process = s.start(channel, r.Payload, terminal); process != nil {
					ok = true
					go func() {
						defer close(over)
						s.end(channel, process)
					}()
				}
			}
			if r.WantReply {
				_ = r.Reply(ok, nil)
			}
		case <-over:
			return
		}
	}
}

// start starts a command. It returns nil if it cannot.
func (s *server) start(channel ssh.Channel, payload []byte, terminal *host.Terminal) host.Process {
	var asked struct{ Command string }
	if ssh.Unmarshal(payload, &asked) != nil {
		return nil
	}
	command := &host.Command{
		Args: []string{"/bin/sh", "-c", asked.Command}, Stdin: channel, Stdout: channel, Stderr: channel.Stderr(), Terminal: terminal,
	}
	if terminal != nil {
		command.Stderr = nil
		command.Env = []string{"TERM=" + terminal.TERM()}
	}
	process, err := s.host.Exec(s.context, command)
	if err != nil {
		return nil
	}
	return process
}

// end waits for a command and says how it ended.
func (s *server) end(channel ssh.Channel, process host.Process) {
	code, err := process.Wait()
	var signal *host.SignalError
	if errors.As(err, &signal) {
		status := struct {
			Signal     string
			CoreDumped bool
			Message    string
			Language   string
		}{Signal: signal.Signal[len("SIG"):]}
		_, _ = channel.SendRequest("exit-signal", false, ssh.Marshal(status))
		return
	}
	if code < 0 {
		code = 255
	}
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)}))
}

// terminalOf is the terminal of a request (RFC 4254, 6.2).
func terminalOf(payload []byte) (*host.Terminal, bool) {
	var asked struct {
		Term                                  string
		Columns, Rows, PixelsWide, PixelsHigh uint32
		Modes                                 string
	}
	if ssh.Unmarshal(payload, &asked) != nil {
		return nil, false
	}
	return &host.Terminal{Name: asked.Term, Size: host.Size{Columns: uint16(asked.Columns), Rows: uint16(asked.Rows)}}, true
}

// sizeOf is the size that a request asks for (RFC 4254, 6.7).
func sizeOf(payload []byte) (host.Size, bool) {
	var asked struct{ Columns, Rows, PixelsWide, PixelsHigh uint32 }
	if ssh.Unmarshal(payload, &asked) != nil {
		return host.Size{}, false
	}
	return host.Size{Columns: uint16(asked.Columns), Rows: uint16(asked.Rows)}, true
}
