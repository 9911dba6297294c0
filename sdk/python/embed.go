// Package python holds the SDK for plugins in Python, for programs that hand it on. Its manual is docs/plugins.md.
package python

import "embed"

// Files are the modules of the SDK, at the paths where a plugin imports them.
//
//go:embed rung_*.py all:rung
var Files embed.FS
