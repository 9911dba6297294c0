// Package local is an instance group of machines on this host. Each has users, files, processes and a network of its own, and an SSH server: it is a tree of processes, which
// needs no root, or a container or sandbox. They outlive the process of the group.
package local

import (
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/options"
	"github.com/rungci/rung/sdk/instancegroup"
)

// Options are those of the configuration.
type Options struct {
	// Machines is what they are: Processes (empty), Containers or Sandboxes.
	Machines string `json:"machines"`
	// Image is that of containers and sandboxes, which their engine pulls if it does not have it.
	Image string `json:"image"`
	// Engine is the socket, or the address, of that engine; empty: the one that is found as for jobs.
	Engine string `json:"engine"`
	// Program is a rung that needs no libraries; empty: this program.
	Program string `json:"program"`
	// Folder is where machines are kept; empty is below the group's state.
	Folder string `json:"folder"`
	// MaxSize is how many machines there can be; 0 is the number of processors.
	MaxSize int `json:"max_size"`
	// Network is what machines reach: NetworkOwn (empty), NetworkHost or NetworkNone.
	Network string `json:"network"`
	// Paths are files and folders of this host that machines see beside the system's, and cannot change.
	Paths []string `json:"paths"`
	// EndWith is the number of a process of this host with which machines end; 0: they outlive everybody.
	EndWith int `json:"end_with"`
	// Shapes are the sizes of machines, by name; none: machines of one size, without limits.
	Shapes map[string]Shape `json:"shapes"`
}

// Shape is a size of machine. 0 is no limit.
type Shape struct {
	CPUs   float64      `json:"cpus"`
	Memory options.Size `json:"memory"`
}

// The networks of machines.
const (
	// NetworkOwn is one of the machine's own, from which it reaches what this host does, but nothing that listens on its loopback addresses. It needs slirp4netns; without it, it is NetworkNone.
	NetworkOwn = "own"
	// NetworkHost is this host's.
	NetworkHost = "host"
	// NetworkNone has loopback addresses of the machine's own, and leads nowhere.
	NetworkNone = "none"
)

// Schema is that of Options.
const Schema = `{
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "machines": {"enum": ["processes", "containers", "sandboxes"], "description": "what machines are: processes of this host in namespaces, containers of an engine, or sandboxes of gVisor that an engine makes"},
    "image": {"type": "string", "minLength": 1, "description": "the image of containers and sandboxes"},
    "engine": {"type": "string", "pattern": "^(/|unix://|tcp://|https?://)", "description": "the socket of the container engine, or its address; the one that jobs use if not set"},
    "program": {"type": "string", "pattern": "^/", "description": "the file of a rung that needs no libraries, which is the SSH server of containers and sandboxes; this program if not set"},
    "folder": {"type": "string", "pattern": "^/", "description": "where machines are kept; below the state folder of the group if not set"},
    "max_size": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "how many machines there can be; the number of processors if not set"},
    "network": {"enum": ["own", "host", "none"], "description": "own: reaches what this host does, through slirp4netns; host: this host's; none: nothing"},
    "paths": {"type": "array", "items": {"type": "string", "pattern": "^/"}, "description": "files and folders of this host that machines see, and cannot change"},
    "end_with": {"type": "integer", "minimum": 1, "description": "process ID on this host: the machines end when it ends. Not set: they keep running"},
    "shapes": {
      "type": "object",
      "propertyNames": {"pattern": "^[A-Za-z0-9._-]{1,63}$"},
      "additionalProperties": {
        "type": "object",
        "additionalProperties": false,
        "required": ["cpus", "memory"],
        "properties": {"cpus": {"type": "number", "exclusiveMinimum": 0}, "memory": ` + options.SizeSchema + `}
      }
    }
  }
}`

// New is the group. It touches nothing before Init. An error is options.Errors.
func New(o Options) (group.Basic, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	c := &cloud{options: o}
	c.storage = &storage{cloud: c}
	return instancegroup.Group(&withVolumes{c, c.storage}), nil
}
