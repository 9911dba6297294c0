package engine

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

// Containers are the calls about containers, their files and the commands in them.
type Containers struct{ client *Client }

// Container says how a container is made. Of Entrypoint and Cmd nil is the image's.
type Container struct {
	Image            string
	User             string `json:",omitempty"`
	Hostname         string `json:",omitempty"`
	MacAddress       string `json:",omitempty"` // before version 1.44 of the API; Endpoint has it since
	WorkingDir       string `json:",omitempty"`
	Entrypoint       []string
	Cmd              []string
	Env              []string            `json:",omitempty"`
	Labels           map[string]string   `json:",omitempty"`
	Healthcheck      *Healthcheck        `json:",omitempty"`
	OpenStdin        bool                `json:",omitempty"` // it has an input
	StdinOnce        bool                `json:",omitempty"` // which ends with the first stream to it
	ExposedPorts     map[string]struct{} `json:",omitempty"` // "80/tcp"
	HostConfig       HostConfig
	NetworkingConfig NetworkingConfig
}

// Healthcheck is how an engine finds out whether a container is well; the test "NONE" is not at all. Times of 0 are the engine's own.
type Healthcheck struct {
	Test        []string
	Interval    time.Duration `json:",omitempty"`
	Timeout     time.Duration `json:",omitempty"`
	StartPeriod time.Duration `json:",omitempty"`
	Retries     int           `json:",omitempty"`
}

// HostConfig says what a container has of its machine.
type HostConfig struct {
	Mounts       []Mount  `json:",omitempty"`
	Binds        []string `json:",omitempty"` // SOURCE:TARGET[:OPTIONS], as docker run --volume has them
	VolumesFrom  []string `json:",omitempty"` // containers, NAME[:ro]
	VolumeDriver string   `json:",omitempty"` // of volumes that Binds make
	NetworkMode  string   `json:",omitempty"` // the id of its network; "" is the engine's own
	Privileged   bool     `json:",omitempty"`
	Init         *bool    `json:",omitempty"`               // its first process is a program of the engine's; nil is what the engine usually does
	ReadOnly     bool     `json:"ReadonlyRootfs,omitempty"` // its own files
	Runtime      string   `json:",omitempty"`               // the engine's name of an OCI runtime; "" is its default
	// Bounds; 0 is none.
	Memory     int64             `json:",omitempty"` // bytes
	MemorySwap int64             `json:",omitempty"` // bytes of memory and swap space together
	NanoCpus   int64             `json:",omitempty"` // billionths of a processor
	PidsLimit  int64             `json:",omitempty"` // processes and threads
	CpusetCpus string            `json:",omitempty"` // which processors: "0-3,6"
	StorageOpt map[string]string `json:",omitempty"` // "size": bytes of the container's own files, where the storage driver can
	// PortBindings are the addresses of the machine that lead to ports of the container: "80/tcp".
	PortBindings map[string][]PortBinding `json:",omitempty"`
	Machine
}

// PortBinding is an address of the machine; an empty port is any that is free.
type PortBinding struct {
	HostIP   string `json:"HostIp"`
	HostPort string
}

// Mount is a volume in a container.
type Mount struct {
	Type   string // "volume"
	Source string
	Target string
	// ReadOnly keeps the container from writing to it, unless that is privileged.
	ReadOnly      bool           `json:",omitempty"`
	VolumeOptions *VolumeOptions `json:",omitempty"`
}

// VolumeOptions say what becomes of a volume that does not exist.
type VolumeOptions struct {
	NoCopy bool // the volume gets nothing of the image
	Labels map[string]string
}

// NetworkingConfig says how a container is on its networks, by their ids.
type NetworkingConfig struct {
	EndpointsConfig map[string]Endpoint `json:",omitempty"`
}

// Endpoint is a container's place on a network.
type Endpoint struct {
	Aliases           []string   `json:",omitempty"`
	MacAddress        string     `json:",omitempty"`
	IPAddress         netip.Addr `json:",omitzero"`
	GlobalIPv6Address netip.Addr `json:",omitzero"`
}

// ContainerState is what is known of a container that was made.
type ContainerState struct {
	State struct {
		Running   bool
		Paused    bool
		OOMKilled bool // the kernel ended it, or a process in it, for want of memory
		ExitCode  int
		Error     string                  // why it could not be started or ended, as the engine says
		Health    struct{ Status string } // starting, healthy, unhealthy; "" where nothing is known of it
	}
	Config struct {
		Env    []string
		Labels map[string]string
	}
	NetworkSettings struct {
		Networks map[string]Endpoint      // by their names
		Ports    map[string][]PortBinding // of the container: "80/tcp"
	}
}

// containerPath is the path of calls about a container.
func containerPath(id, what string) string { return "/containers/" + id + what }

// Create makes a container and returns its id. platform is system/architecture/variant; "" is the image's.
func (c Containers) Create(ctx context.Context, name, platform string, spec *Container) (id string, err error) {
	query := url.Values{"name": {name}}
	if platform != "" {
		query.Set("platform", platform)
	}
	var made identified
	err = c.client.post(ctx, "/containers/create", query, spec, &made)
	return made.ID, err
}

// Start starts a container.
func (c Containers) Start(ctx context.Context, id string) error {
	return c.client.post(ctx, containerPath(id, "/start"), nil, nil, nil)
}

// Attach opens a stream of what a container writes from now on, and with input to what it reads.
func (c Containers) Attach(ctx context.Context, id string, input bool) (*Stream, error) {
	query := url.Values{"stream": {"1"}, "stdout": {"1"}, "stderr": {"1"}}
	if input {
		query.Set("stdin", "1")
	}
	return c.client.hijack(ctx, &request{method: http.MethodPost, path: containerPath(id, "/attach"), query: query})
}

// Inspect returns what is known of a container.
func (c Containers) Inspect(ctx context.Context, id string) (*ContainerState, error) {
	found := &ContainerState{}
	return found, c.client.get(ctx, containerPath(id, "/json"), nil, found)
}

// Wait waits until a container does not run, however long that takes, and returns its exit code.
func (c Containers) Wait(ctx context.Context, id string) (code int, err error) {
	var end struct {
		StatusCode int
		Error      struct{ Message string }
	}
	err = c.client.patiently(ctx, &request{method: http.MethodPost, path: containerPath(id, "/wait"), query: url.Values{"condition": {"not-running"}}}, &end)
	if err == nil && end.Error.Message != "" {
		err = &Error{Message: end.Error.Message}
	}
	return end.StatusCode, err
}

// Log opens the last lines of what a container has written, in frames, which must be closed.
func (c Containers) Log(ctx context.Context, id string, lines int) (io.ReadCloser, error) {
	query := url.Values{"stdout": {"1"}, "stderr": {"1"}, "tail": {strconv.Itoa(lines)}}
	return c.client.open(ctx, &request{method: http.MethodGet, path: containerPath(id, "/logs"), query: query})
}

// List returns the ids of all containers with a label.
func (c Containers) List(ctx context.Context, label, value string) ([]string, error) {
	var found []identified
	query := labelled(label, value)
	query.Set("all", "1")
	err := c.client.get(ctx, "/containers/json", query, &found)
	return ids(found), err
}

// Bound returns the folders of the engine's machine that containers have, whether they run or not.
func (c Containers) Bound(ctx context.Context) (sources []string, err error) {
	var found []struct {
		Mounts []struct{ Type, Source string }
	}
	err = c.client.get(ctx, "/containers/json", url.Values{"all": {"1"}}, &found)
	for _, one := range found {
		for _, m := range one.Mounts {
			if m.Type == "bind" {
				sources = append(sources, m.Source)
			}
		}
	}
	return sources, err
}

// Kill kills a container. The error is http.StatusConflict where it does not run.
func (c Containers) Kill(ctx context.Context, id string) error {
	return c.client.post(ctx, containerPath(id, "/kill"), nil, nil, nil)
}

// Pause stops all that runs in a container, which keeps its memory. The error is http.StatusConflict where it does not run, or is paused.
func (c Containers) Pause(ctx context.Context, id string) error {
	return c.client.post(ctx, containerPath(id, "/pause"), nil, nil, nil)
}

// Unpause ends what Pause began.
func (c Containers) Unpause(ctx context.Context, id string) error {
	return c.client.post(ctx, containerPath(id, "/unpause"), nil, nil, nil)
}

// Remove kills and removes a container, and its volumes without a name.
func (c Containers) Remove(ctx context.Context, id string) error {
	return c.client.remove(ctx, containerPath(id, ""), url.Values{"force": {"1"}, "v": {"1"}})
}

// StatFile finds out whether a container has a file. The error is http.StatusNotFound where it has not.
func (c Containers) StatFile(ctx context.Context, id, path string) error {
	return c.client.call(ctx, &request{method: http.MethodHead, path: containerPath(id, "/archive"), query: url.Values{"path": {path}}}, nil)
}

// ReadFiles opens a tar archive of a file or folder in a container, which must be closed. The error is http.StatusNotFound where there
// is none.
func (c Containers) ReadFiles(ctx context.Context, id, path string) (io.ReadCloser, error) {
	return c.client.open(ctx, &request{method: http.MethodGet, path: containerPath(id, "/archive"), query: url.Values{"path": {path}}})
}

// WriteFiles unpacks a tar archive in a folder of a container, however long that takes.
func (c Containers) WriteFiles(ctx context.Context, id, path string, archive io.Reader) error {
	return c.client.patiently(ctx, &request{method: http.MethodPut, path: containerPath(id, "/archive"), query: url.Values{"path": {path}}, body: archive}, nil)
}
