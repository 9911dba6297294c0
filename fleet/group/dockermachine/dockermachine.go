// Package dockermachine is an instance group of machines that docker-machine makes with its drivers. The program is somebody else's; this speaks its documented command line.
package dockermachine

import (
	"strings"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/options"
	"github.com/rungci/rung/sdk/instancegroup"
)

// Options are those of the configuration: [runners.machine] of gitlab-runner has the first three as MachineDriver, MachineName and MachineOptions.
type Options struct {
	Driver string `json:"driver"`
	// Name is that of machines, in which %s is what tells them apart.
	Name string `json:"name"`
	// MachineOptions are flags of the driver without the dashes: "amazonec2-region=us-east-1".
	MachineOptions []string `json:"machine_options"`
	// MachineOptionsWithName are others, in which %s is the name of the machine.
	MachineOptionsWithName []string `json:"machine_options_with_name"`
	// MaxSize is how many machines there can be; 0 is DefaultMaxSize.
	MaxSize int `json:"max_size"`
	// Program is docker-machine; empty is the one in PATH.
	Program string `json:"program"`
	// StoragePath is where docker-machine keeps its machines and keys; empty is $MACHINE_STORAGE_PATH, else ~/.docker/machine.
	StoragePath string `json:"storage_path"`
}

// DefaultMaxSize is how many machines there can be where nothing says it.
const DefaultMaxSize = 100

// Schema is that of Options.
const Schema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["driver", "name"],
  "properties": {
    "driver": {"type": "string", "minLength": 1, "description": "docker-machine's driver (MachineDriver)"},
    "name": {"type": "string", "pattern": "^[^%]*%s[^%]*$", "description": "the name of machines, in which %s is what tells them apart (MachineName)"},
    "machine_options": {"type": "array", "items": {"type": "string", "minLength": 1}, "description": "flags of the driver without the dashes (MachineOptions)"},
    "machine_options_with_name": {"type": "array", "items": {"type": "string", "minLength": 1}, "description": "other flags, in which %s is the name of the machine (MachineOptionsWithName)"},
    "max_size": {"type": "integer", "minimum": 1, "description": "how many machines there can be; 100 if not set"},
    "program": {"type": "string", "description": "docker-machine; the one in PATH if not set"},
    "storage_path": {"type": "string", "pattern": "^/", "description": "where docker-machine keeps its machines and keys; $MACHINE_STORAGE_PATH, else ~/.docker/machine, if not set"}
  }
}`

// New is the group. It touches nothing before Init.
func New(o Options) (group.Basic, error) {
	if strings.Count(o.Name, "%s") != 1 || strings.Count(o.Name, "%") != 1 {
		return nil, options.At("it must have one %s, for what tells machines apart, and no other %", "name")
	}
	return instancegroup.Group(&cloud{options: o}), nil
}
