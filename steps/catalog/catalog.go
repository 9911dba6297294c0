// Package catalog holds the components that are part of this program: what builtin:// references name.
package catalog

import "embed"

// FS has a folder for every component, named as references name it.
//
//go:embed script
var FS embed.FS
