// The program group-plugin-azure is an instance group on Microsoft Azure: a uniform scale set, or virtual machines of its own that are made by name, alone or in a flexible scale
// set. README.md is its manual.
package main

import "github.com/rungci/rung/sdk/instancegroup"

// buildVersion is set when a release is built.
var buildVersion string

func main() {
	instancegroup.Main(&plugin{}, instancegroup.VersionInfo{Name: "azure", Version: buildVersion})
}
