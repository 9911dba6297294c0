package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// maxContext bounds the file of a Docker context, in bytes.
const maxContext = 1 << 20

// Place is where an engine may listen.
type Place struct {
	// Host is its address, as New takes it, or ssh://.
	Host string
	// Certificates is the folder of its certificates; "" is none.
	Certificates string
	// From says where the address is from, for people: DOCKER_HOST.
	From string
}

// Named is the engine that DOCKER_HOST, DOCKER_CONTEXT, Docker's current context or CONTAINER_HOST names; nil is none. env is the environment of the user, as NAME=value.
func Named(env []string) (*Place, error) { return (&finder{env: env}).named() }

// Usual are where Docker and Podman listen when nobody says otherwise.
func Usual(env []string) []Place { return (&finder{env: env}).places() }

// Exists reports whether an engine on this machine has a socket.
func (p *Place) Exists() bool {
	socket, isUnix := strings.CutPrefix(p.Host, "unix://")
	return !isUnix || isThere(socket)
}

// Home is the user's home folder; "" is unknown.
func Home(env []string) string { return (&finder{env: env}).home() }

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
func (f *finder) named() (*Place, error) {
	if host := f.getenv("DOCKER_HOST"); host != "" {
		e := &Place{Host: host, From: "DOCKER_HOST"}
		if f.getenv("DOCKER_TLS_VERIFY") != "" {
			if e.Certificates = f.getenv("DOCKER_CERT_PATH"); e.Certificates == "" {
				e.Certificates = f.dockerFolder()
			}
		}
		return e, nil
	}
	e, err := f.context()
	if e != nil || err != nil {
		return e, err
	}
	if host := f.getenv("CONTAINER_HOST"); host != "" {
		return &Place{Host: host, From: "CONTAINER_HOST"}, nil
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
func (f *finder) context() (*Place, error) {
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
	e := &Place{Host: meta.Endpoints.Docker.Host, From: "the Docker context " + name}
	if tls := filepath.Join(folder, "contexts", "tls", id, "docker"); isFile(filepath.Join(tls, "ca.pem")) || isFile(filepath.Join(tls, "cert.pem")) {
		e.Certificates = tls
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

func (f *finder) places() (out []Place) {
	add := func(host, from string) { out = append(out, Place{Host: host, From: from}) }
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
