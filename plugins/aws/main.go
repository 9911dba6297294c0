// Command group-plugin-aws is the instance-group plugin for AWS. Its machines are those of an existing Auto Scaling group, or EC2 machines of several shapes that it
// makes itself. README.md is the manual.
package main

import "github.com/rungci/rung/sdk/instancegroup"

// buildVersion is set when it is built (scripts/plugins.sh).
var buildVersion = "dev"

func main() {
	instancegroup.Main(&Group{}, instancegroup.VersionInfo{Name: "aws", Version: buildVersion})
}
