// Command provider-plugin-command is an example of a provider plugin: a command of yours makes a machine for each job, and another one removes it.
//
//	[runners.provider]
//	name = "command"
//	[runners.provider.options]
//	create = ["/usr/local/bin/create-vm"]   # is given an ID, and prints {"address": "10.0.0.7:22", "user": "ci", "key_file": "/etc/ci/key", "host_key": "SHA256:…"}
//	delete = ["/usr/local/bin/delete-vm"]   # is given the ID
//	max = 5
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"github.com/rungci/rung/sdk/provider"
)

const schema = `{
  "type": "object",
  "properties": {
    "create": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    "delete": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    "max": {"type": "integer", "minimum": 1}
  },
  "required": ["create", "delete", "max"],
  "additionalProperties": false
}`

func main() {
	provider.Serve(provider.Plugin{Name: "command", Version: "1.0.0", Summary: "a machine for each job, made by a command of yours", Schema: schema, Open: open})
}

func open(_ context.Context, setup provider.Setup, raw json.RawMessage) (provider.Provider, error) {
	var o struct {
		Create, Delete []string
		Max            int
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("reading the options: %w", err)
	}
	return provider.NewFresh(provider.Fresh{
		Max: o.Max,
		Create: func(ctx context.Context, id string, _ provider.Job, _ provider.Reporter) (*provider.Machine, error) {
			text, err := run(ctx, o.Create, id)
			if err != nil {
				return nil, err
			}
			var at struct {
				Address, User string
				KeyFile       string `json:"key_file"`
				HostKey       string `json:"host_key"`
			}
			if err := json.Unmarshal(text, &at); err != nil {
				return nil, fmt.Errorf("%s must print a JSON object with the machine's address: %w", o.Create[0], err)
			}
			return &provider.Machine{Access: provider.Access{Protocol: provider.SSH, Address: at.Address, User: at.User, KeyFile: at.KeyFile, HostKey: at.HostKey}}, nil
		},
		Delete: func(ctx context.Context, id string) error { _, err := run(ctx, o.Delete, id); return err },
	}, setup)
}

// run runs a command with the ID of a machine, and returns what it prints.
func run(ctx context.Context, command []string, id string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], id)...)
	cmd.Stderr = os.Stderr // the runner's log
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", command[0], id, err)
	}
	return out, nil
}
