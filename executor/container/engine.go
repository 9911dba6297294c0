package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"runtime"
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
	// maxContext bounds the file of a Docker context, in bytes.
	maxContext = 1 << 20
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
func Detect(ctx context.Context, env []string) (*Engine, error) {
	f := &finder{env: env}
	named, err := f.named()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoEngine, err)
	}
	if named != nil {
		if strings.HasPrefix(named.Host, "ssh://") {
			if err := named.openSSH(ctx); err != nil {
				return nil, fmt.Errorf("%w at %s, which %s names: %w", ErrNoEngine, engine.WithoutUser(named.Host), named.From, err)
			}
		}
		if err := named.ping(ctx, namedTime); err != nil {
			named.close()
			return nil, fmt.Errorf("%w at %s, which %s names: %w; start it, or correct the name", ErrNoEngine, named.place(), named.From, err)
		}
		return named, nil
	}
	tried := []error{}
	for _, e := range f.places() {
		if !e.isThere() {
			continue
		}
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
	return nil, fmt.Errorf("%w: %w", ErrNoEngine, errors.Join(tried...))
}

// isThere reports whether an engine on this machine has a socket.
func (e *Engine) isThere() bool {
	path, isUnix := strings.CutPrefix(e.Host, "unix://")
	if !isUnix {
		return true
	}
	_, err := os.Stat(path)
	return err == nil
}

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

// finder looks for engines.
type finder struct{ env []string }

func (f *finder) getenv(name string) string {
	for i := len(f.env) - 1; i >= 0; i-- {
		if key, value, ok := strings.Cut(f.env[i], "="); ok && (key == name || runtime.GOOS == "windows" && strings.EqualFold(key, name)) {
			return value
		}
	}
	return ""
}

func (f *finder) home() string {
	if runtime.GOOS == "windows" {
		return f.getenv("USERPROFILE")
	}
	return f.getenv("HOME")
}

// named is the engine that the user has named; nil is none.
func (f *finder) named() (*Engine, error) {
	if host := f.getenv("DOCKER_HOST"); host != "" {
		e := &Engine{Host: host, From: "DOCKER_HOST"}
		if f.getenv("DOCKER_TLS_VERIFY") != "" {
			if e.tls = f.getenv("DOCKER_CERT_PATH"); e.tls == "" {
				e.tls = f.dockerFolder()
			}
		}
		return e, nil
	}
	e, err := f.context()
	if e != nil || err != nil {
		return e, err
	}
	if host := f.getenv("CONTAINER_HOST"); host != "" {
		return &Engine{Host: host, From: "CONTAINER_HOST"}, nil
	}
	return nil, nil
}

func (f *finder) dockerFolder() string {
	if dir := f.getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	if home := f.home(); home != "" {
		return filepath.Join(home, ".docker")
	}
	return ""
}

// context is the engine of the Docker context that is in use; nil is that of the default one.
func (f *finder) context() (*Engine, error) {
	folder := f.dockerFolder()
	name, from := f.getenv("DOCKER_CONTEXT"), "DOCKER_CONTEXT"
	if folder == "" {
		return nil, nil
	}
	if name == "" {
		var config struct {
			CurrentContext string `json:"currentContext"`
		}
		from = filepath.Join(folder, "config.json")
		if text, err := readBounded(from); err == nil {
			_ = json.Unmarshal(text, &config) // a damaged one is for Docker's own tools to complain of
		}
		name = config.CurrentContext
	}
	if name == "" || name == "default" {
		return nil, nil
	}
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	text, err := readBounded(filepath.Join(folder, "contexts", "meta", id, "meta.json"))
	if err != nil {
		return nil, fmt.Errorf("the Docker context %q, which %s names, cannot be read: %w; docker context ls lists the existing ones", name, from, err)
	}
	var meta struct {
		Endpoints struct {
			Docker struct{ Host string }
		}
	}
	if err := json.Unmarshal(text, &meta); err != nil || meta.Endpoints.Docker.Host == "" {
		return nil, fmt.Errorf("the Docker context %q, which %s names, has no address of an engine; docker context create makes one", name, from)
	}
	e := &Engine{Host: meta.Endpoints.Docker.Host, From: "the Docker context " + name}
	if tls := filepath.Join(folder, "contexts", "tls", id, "docker"); isFile(filepath.Join(tls, "ca.pem")) || isFile(filepath.Join(tls, "cert.pem")) {
		e.tls = tls
	}
	return e, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxContext {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxContext)
	}
	return os.ReadFile(path)
}

// places are where Docker and Podman listen when nobody says otherwise.
func (f *finder) places() (out []*Engine) {
	add := func(host, from string) { out = append(out, &Engine{Host: host, From: from}) }
	if runtime.GOOS == "windows" {
		add("tcp://127.0.0.1:2375", "where Docker Desktop listens when it is told to") // the client knows no named pipes
		return out
	}
	add("unix:///var/run/docker.sock", "where Docker listens")
	home, run := f.home(), f.getenv("XDG_RUNTIME_DIR")
	if home != "" {
		add("unix://"+path.Join(home, ".docker", "run", "docker.sock"), "where Docker Desktop listens")
	}
	if run != "" {
		add("unix://"+path.Join(run, "docker.sock"), "where rootless Docker listens")
		add("unix://"+path.Join(run, "podman", "podman.sock"), "where rootless Podman listens")
	}
	add("unix:///run/podman/podman.sock", "where Podman listens")
	return out
}
