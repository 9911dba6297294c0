// The program group-plugin-googlecloud is an instance group on Google Compute Engine: a managed instance group, of a zone or of a region, or single instances that are made from
// an instance template. README.md is its manual.
package main

import "github.com/rungci/rung/sdk/instancegroup"

// buildVersion is set when a release is built.
var buildVersion string

func main() {
	instancegroup.MainCloud(&cloud{}, instancegroup.VersionInfo{Name: "googlecloud", Version: buildVersion})
}
