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

	"github.com/rungci/rung/executor"
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

// detectOn is DetectOn for a level.
func detectOn(ctx context.Context, setup executor.Setup) (*Engine, error) {
	if isLocal(setup.Host) && !slices.ContainsFunc(setup.HostEnv, func(pair string) bool { return strings.HasPrefix(pair, hostVariable+"=") }) {
		return detect(ctx, slices.Concat(setup.Env, setup.HostEnv), setup.EngineFrom)
	}
	return DetectOn(ctx, setup.Host, setup.Env, setup.HostEnv)
}

// DetectOn finds the engine of a host: what DOCKER_HOST names there, else the first that answers where Docker and Podman listen. env is the user's
// environment on this machine, and beyond is what the host's has beyond what is set there. The error is ErrNoEngine.
func DetectOn(ctx context.Context, h host.Host, env, beyond []string) (*Engine, error) {
	if isLocal(h) {
		return Detect(ctx, slices.Concat(env, beyond))
	}
	lines, err := shell(ctx, h, `printf '%s\n' "DOCKER_HOST=$DOCKER_HOST" "HOME=$HOME" "XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}"`)
	if err != nil {
		return nil, fmt.Errorf("looking for a container engine on %s: %w", h.Name(), err)
	}
	there := slices.Concat(lines, beyond)
	places := engine.Usual(there)
	for _, pair := range there {
		if named, is := strings.CutPrefix(pair, "DOCKER_HOST="); is && named != "" {
			places = []engine.Place{{Host: named, From: namedThere}}
		}
	}
	tried := map[string]error{}
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
		tried[e.Host] = err
	}
	return nil, silent(ctx, h, places, tried)
}

// silent says why no engine of a host answers. Of places where one may be, those that are not there are not worth a word.
func silent(ctx context.Context, h host.Host, places []engine.Place, tried map[string]error) error {
	var sockets []string
	for _, place := range places {
		sockets = append(sockets, strings.TrimPrefix(place.Host, "unix://"))
	}
	found, err := shell(ctx, h, `for socket; do if [ -e "$socket" ]; then printf '%s\n' "$socket"; fi; done`, sockets...)
	var why several
	for i, place := range places {
		if err != nil || place.From == namedThere || slices.Contains(found, sockets[i]) {
			why = append(why, fmt.Errorf("%s: %w", place.Host, tried[place.Host]))
		}
	}
	if len(why) == 0 {
		return fmt.Errorf("%w on %s: found no socket of Docker or Podman there; start one of them, or set DOCKER_HOST in the environment of the login", ErrNoEngine, h.Name())
	}
	return fmt.Errorf("%w on %s: %w", ErrNoEngine, h.Name(), why)
}

// shell is what a script prints on a host, in lines.
func shell(ctx context.Context, h host.Host, script string, args ...string) ([]string, error) {
	var out bytes.Buffer
	p, err := h.Exec(ctx, &host.Command{Args: append([]string{"sh", "-c", script, "sh"}, args...), Stdout: &out})
	if err == nil {
		_, err = p.Wait()
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n"), err
}

// namedThere says that the user has named an engine on another machine.
const namedThere = "DOCKER_HOST there"

func isLocal(h host.Host) bool { return h == nil || h.Name() == local.Name }
