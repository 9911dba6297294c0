package winrm

import "github.com/rungci/rung/executor/host"

// The command lines of the scripts.
var (
	Launch = powershell(launchScript)
	Put    = powershell(putScript)
)

// Pretend makes a machine be of another platform: that of the tests' server.
func (h *Host) Pretend(p host.Platform) { h.platform = p }

// Quoted are arguments as programs of Windows take them apart.
var Quoted = quoted
