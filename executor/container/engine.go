package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"time"

	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/executor/host"
)

const (
	// probeTime is how long an engine may take to answer whose socket was found; a program that asks every time should not wait.
	probeTime = 50 * time.Millisecond
	// namedTime is how long an engine may take that the user has named.
	namedTime = 5 * time.Second
)

// Engine is a container engine that answers.
type Engine struct {
	// Host is its address: unix:///run/docker.sock.
	Host string
	// From says where the address is from, for people: DOCKER_HOST.
	From string

	tls  string    // the folder of its certificates; "" is none
	on   host.Host // the machine on which Host is its address; nil is this one
	owns bool      // on was opened for the engine
}

func (e *Engine) String() string {
	return fmt.Sprintf("%s (%s)", e.place(), e.From)
}

// place tells the engine from all others.
func (e *Engine) place() string {
	if e.on != nil {
		return engine.WithoutUser(e.Host) + " on " + e.on.Name()
	}
	return engine.WithoutUser(e.Host)
}

// ErrNoEngine says that no engine answers.
var ErrNoEngine = errors.New("no container engine answers")

// Detect finds the engine: what DOCKER_HOST, DOCKER_CONTEXT, Docker's current context and CONTAINER_HOST name, else the first
// that answers where Docker and Podman listen. One that is named is not replaced by another. env is the environment of the user, as
// NAME=value. The error is ErrNoEngine, with what was tried.
func Detect(ctx context.Context, env []string) (*Engine, error) { return detect(ctx, env, "") }

// hostVariable is the variable that names an engine before all others.
const hostVariable = "DOCKER_HOST"

// detect is Detect, where from is what has set hostVariable; empty is the user.
func detect(ctx context.Context, env []string, from string) (*Engine, error) {
	place, err := engine.Named(env)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoEngine, err)
	}
	if place != nil {
		named := at(place)
		if from != "" && named.From == hostVariable {
			named.From = from
		}
		if strings.HasPrefix(named.Host, "ssh://") {
			if err := named.openSSH(ctx); err != nil {
				return nil, fmt.Errorf("%w at %s, which %s names: %w", ErrNoEngine, engine.WithoutUser(named.Host), named.From, err)
			}
		}
		if err := named.ping(ctx, namedTime); err != nil {
			named.close()
			return nil, fmt.Errorf("%w at %s, which %s names: %w; start it, or correct the address", ErrNoEngine, named.place(), named.From, err)
		}
		return named, nil
	}
	tried := []error{}
	for _, place := range engine.Usual(env) {
		if !place.Exists() {
			continue
		}
		e := at(&place)
		err := e.ping(ctx, probeTime)
		if err == nil {
			return e, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		tried = append(tried, fmt.Errorf("%s: %w", e.Host, err))
	}
	if len(tried) == 0 {
		return nil, fmt.Errorf("%w: found no socket of Docker or Podman; start one of them, or set DOCKER_HOST", ErrNoEngine)
	}
	return nil, fmt.Errorf("%w: %w", ErrNoEngine, several(tried))
}

// several are errors in one line.
type several []error

func (s several) Error() string {
	texts := make([]string, len(s))
	for i, err := range s {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (s several) Unwrap() []error { return s }

// at is the engine of a place.
func at(p *engine.Place) *Engine { return &Engine{Host: p.Host, From: p.From, tls: p.Certificates} }

// ping asks the engine whether it lives.
func (e *Engine) ping(ctx context.Context, limit time.Duration) error {
	c, err := e.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it did not answer within %s", limit))
	defer cancel()
	err = c.Ping(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, fs.ErrPermission):
		return errors.New("you may not use it; join the group that its socket belongs to")
	}
	return err
}

// connect makes a client, without a word to the engine.
func (e *Engine) connect() (*engine.Client, error) {
	return engine.NewThrough(e.dialer(), e.Host, e.tls)
}

// dialer connects to addresses of the engine's machine.
func (e *Engine) dialer() engine.Dialer {
	if e.on != nil {
		return e.on.Dial
	}
	return new(net.Dialer).DialContext
}
