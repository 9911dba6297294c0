// Package catalog holds the components that are part of this program: what builtin:// references name.
//
// Each is a folder with a func.yml, as any other step. Those that are more than shell text are made of this program's own code: the
// folder's command is `step-runner builtin NAME`, and the Go of it is in the package of the folder above, such as
// steps/catalog/cache for cache/restore.
package catalog

import "embed"

// FS has a folder for every component, named as references name it.
//
//go:embed */func.yml */*/func.yml
var FS embed.FS
