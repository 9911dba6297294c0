package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/host/ssh"
)

const (
	// sshTime is how long a machine that DOCKER_HOST names may take to let us in.
	sshTime = 20 * time.Second
	// defaultSocket is where an engine listens on a machine that is named without a socket.
	defaultSocket = "/var/run/docker.sock"
)

// openSSH turns an address ssh://[user@]host[:port][/socket] into that of a socket on an SSH host, which is connected to.
func (e *Engine) openSSH(ctx context.Context) error {
	u, err := url.Parse(e.Host)
	if err != nil {
		return errors.New("it is not a URL: write ssh://user@host") // the error would show what is in it
	}
	socket := u.Path
	if socket == "" || socket == "/" {
		socket = defaultSocket
	}
	address := strings.TrimSuffix(strings.TrimSuffix(e.Host, u.EscapedPath()), "/")
	ctx, cancel := context.WithTimeoutCause(ctx, sshTime, fmt.Errorf("it did not answer within %s", sshTime))
	defer cancel()
	h, err := ssh.New(ctx, ssh.Options{Address: address})
	if err != nil {
		return err
	}
	e.Host, e.on, e.owns = "unix://"+socket, h, true
	return nil
}

// close ends the connection to the engine's machine, if it was opened for the engine.
func (e *Engine) close() {
	if e.owns {
		_ = e.on.Close()
	}
}

// DetectOn finds the engine of a host: what DOCKER_HOST names there, else the first that answers where Docker and Podman listen. env is the user's
// environment on this machine, and beyond is what the host's has beyond what is set there. The error is ErrNoEngine.
func DetectOn(ctx context.Context, h host.Host, env, beyond []string) (*Engine, error) {
	if isLocal(h) {
		return Detect(ctx, slices.Concat(env, beyond))
	}
	var out bytes.Buffer
	p, err := h.Exec(ctx, &host.Command{
		Args: []string{"sh", "-c", `printf '%s\n' "DOCKER_HOST=$DOCKER_HOST" "HOME=$HOME" "XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}"`}, Stdout: &out,
	})
	if err == nil {
		_, err = p.Wait()
	}
	if err != nil {
		return nil, fmt.Errorf("looking for a container engine on %s: %w", h.Name(), err)
	}
	there := slices.Concat(strings.Split(out.String(), "\n"), beyond)
	places := engine.Usual(there)
	for _, pair := range there {
		if named, is := strings.CutPrefix(pair, "DOCKER_HOST="); is && named != "" {
			places = []engine.Place{{Host: named, From: "DOCKER_HOST there"}}
		}
	}
	tried := []error{}
	for _, place := range places {
		e := at(&place)
		e.on = h
		err := e.ping(ctx, namedTime)
		switch {
		case err == nil:
			return e, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, host.ErrLost):
			return nil, err
		}
		tried = append(tried, fmt.Errorf("%s: %w", e.Host, err))
	}
	return nil, fmt.Errorf("%w on %s: %w", ErrNoEngine, h.Name(), errors.Join(tried...))
}

func isLocal(h host.Host) bool { return h == nil || h.Name() == local.Name }
