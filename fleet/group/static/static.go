// Package static is an instance group of hosts that are there already: an instance is a host of a list, which goes back when it is deleted.
package static

import (
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/options"
	"github.com/rungci/rung/sdk/instancegroup"
)

// Options are those of the configuration.
type Options struct {
	Hosts []Host `json:"hosts"`
	// Reset is a command that makes a host as it was before it goes back to the list; empty: it goes back as it is.
	Reset string `json:"reset"`
	// ResetTimeout bounds it, in seconds; 0 is five minutes.
	ResetTimeout int `json:"reset_timeout"`
}

// Host is one host. What is empty is as the connector's configuration says.
type Host struct {
	// Name is what people call it; empty is its address.
	Name string `json:"name"`
	// Address is a name or an address, with a port or without.
	Address string `json:"address"`
	User    string `json:"user"`
	// KeyFile is the path of a private key on this machine.
	KeyFile string `json:"key_file"`
	// HostKey is the fingerprint of the host's key ("SHA256:…"); empty: that of the first connection is remembered.
	HostKey string `json:"host_key"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	// Shape is the kind of host; hosts of one shape have the same size.
	Shape  string            `json:"shape"`
	CPUs   float64           `json:"cpus"`
	Memory options.Size      `json:"memory"`
	Disk   options.Size      `json:"disk"`
	GPUs   int               `json:"gpus"`
	Labels map[string]string `json:"labels"`
}

// Schema is that of Options.
const Schema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["hosts"],
  "properties": {
    "hosts": {
      "type": "array",
      "minItems": 1,
      "items": {
        "type": "object",
        "additionalProperties": false,
        "required": ["address"],
        "properties": {
          "name": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,63}$", "description": "what people call it; its address if not set"},
          "address": {"type": "string", "minLength": 1, "description": "a name or an address, with a port or without"},
          "user": {"type": "string", "description": "that of connector_config if not set, as key_file"},
          "key_file": {"type": "string", "pattern": "^/", "description": "the path of a private key"},
          "host_key": {"type": "string", "pattern": "^SHA256:", "description": "the fingerprint of the host's key; that of the first connection is remembered if not set"},
          "os": {"type": "string"},
          "arch": {"type": "string"},
          "shape": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,63}$", "description": "hosts of one shape have the same size"},
          "cpus": {"type": "number", "minimum": 0},
          "memory": ` + options.SizeSchema + `,
          "disk": ` + options.SizeSchema + `,
          "gpus": {"type": "integer", "minimum": 0},
          "labels": {"type": "object", "additionalProperties": {"type": "string"}}
        }
      }
    },
    "reset": {"type": "string", "description": "a command that makes a host as it was before it goes back to the list"},
    "reset_timeout": {"type": "integer", "minimum": 1, "description": "how long it may take, in seconds; 300 if not set"}
  }
}`

// New is the group. It touches nothing before Init.
func New(o Options) (group.Basic, error) {
	c, err := newCloud(o)
	if err != nil {
		return nil, err
	}
	return instancegroup.Group(c), nil
}
