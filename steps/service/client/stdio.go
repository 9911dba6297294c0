package client

import (
	"errors"
	"io"
	"net"
	"time"
)

// Stdio makes a connection of the standard output and input of a process, such as `ssh HOST step-runner proxy`, for WithDialer.
// Closing the connection closes both.
func Stdio(r io.ReadCloser, w io.WriteCloser) net.Conn { return &stdio{r, w} }

type stdio struct {
	io.ReadCloser
	w io.WriteCloser
}

func (c *stdio) Write(p []byte) (int, error) { return c.w.Write(p) }

func (c *stdio) Close() error { return errors.Join(c.w.Close(), c.ReadCloser.Close()) }

func (c *stdio) LocalAddr() net.Addr  { return stdioAddr{} }
func (c *stdio) RemoteAddr() net.Addr { return stdioAddr{} }

// Deadlines are those of calls; a process has none.
func (c *stdio) SetDeadline(time.Time) error      { return nil }
func (c *stdio) SetReadDeadline(time.Time) error  { return nil }
func (c *stdio) SetWriteDeadline(time.Time) error { return nil }

type stdioAddr struct{}

func (stdioAddr) Network() string { return "stdio" }
func (stdioAddr) String() string  { return "stdio" }
