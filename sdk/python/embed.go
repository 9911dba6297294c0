// Package python holds the SDK for plugins in Python, for programs that hand it on. Its manual is docs/plugins.md.
package python

import "embed"

// Files are the modules of the SDK, at the paths where a plugin imports them. What Python compiles beside them (__pycache__) is not among them:
// programs would differ by what was run before they were built.
//
//go:embed rung_*.py rung/*/v1/*.py
var Files embed.FS
