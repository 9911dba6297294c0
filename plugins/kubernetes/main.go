// The program group-plugin-kubernetes is an instance group on a cluster of Kubernetes: its machines are pods. It is also what runs in them, as their SSH server. README.md is its
// manual.
package main

import (
	"fmt"
	"os"

	"github.com/rungci/rung/executor/host/brought"
	"github.com/rungci/rung/sdk/instancegroup"
)

// machineArgument is the first argument of this program as a part of a machine.
const machineArgument = "machine"

// buildVersion is set when a release is built.
var buildVersion string

func main() {
	if len(os.Args) > 1 && os.Args[1] == machineArgument {
		if err := brought.Run(machineArgument, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	instancegroup.MainCloud(&cloud{}, instancegroup.VersionInfo{Name: "kubernetes", Version: buildVersion})
}
