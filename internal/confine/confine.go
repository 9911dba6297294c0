// Package confine runs a process in namespaces of its own, where it sees only the part of the machine that it was given: user, mount,
// process and IPC namespaces, with Landlock on top. No privileges are needed. Only Linux has all that; elsewhere it refuses.
//
//	our process --clone--> init: this program again, process 1 of the namespaces: makes the view, then waits
//	                         '--> the command, in a session of its own
//
// The init is told what to do in a file in memory, and answers through a socket. The socket is also its lifeline: when our end of it
// closes, because we were killed, it ends, and with it everything in its namespace.
package confine

import (
	"path/filepath"
	"slices"
	"strings"
)

// View is what a confined process sees of the file system, besides the programs and libraries of the system, which it can only read.
type View struct {
	// Paths are the files and folders of this machine that it sees. Those that do not exist are left out.
	Paths []Path `json:"paths"`
	// Hidden are files and folders below Paths that it does not see: an empty file or folder is in their place.
	Hidden []string `json:"hidden,omitempty"`
}

// Path is a file or folder in a view.
type Path struct {
	At       string `json:"at"`             // where the process sees it: absolute and clean
	From     string `json:"from,omitempty"` // where it is; "" is At
	Writable bool   `json:"writable,omitempty"`
}

// Add adds a path as it is, and as its symbolic links lead, as programs may use either.
func (v *View) Add(path string, writable bool) {
	if path = filepath.Clean(path); !filepath.IsAbs(path) {
		return
	}
	v.Paths = append(v.Paths, Path{At: path, Writable: writable})
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		v.Paths = append(v.Paths, Path{At: real, Writable: writable})
	}
}

// hasAlready reports whether the path is, for reading, in what the view has anyway: in the folders, or what it can write to.
func (v *View) hasAlready(p Path, folders []string) bool {
	hidden := func(path string) bool { return isIn(p.At, path) }
	if p.Writable || p.From != "" || slices.ContainsFunc(v.Hidden, hidden) {
		return false
	}
	return slices.ContainsFunc(folders, func(folder string) bool { return isIn(p.At, folder) }) ||
		slices.ContainsFunc(v.Paths, func(other Path) bool { return other.Writable && other.From == "" && isIn(p.At, other.At) })
}

// above are the folders between a hidden path and what can be written to around it. As mounts they keep their names: in one with another name
// the next process would see what is hidden from it.
func (v *View) above(hidden string) []string {
	var out []string
	for _, p := range v.Paths {
		if !p.Writable || p.From != "" || !isIn(hidden, p.At) || hidden == p.At {
			continue
		}
		for folder := filepath.Dir(hidden); folder != p.At; folder = filepath.Dir(folder) {
			if !slices.ContainsFunc(v.Hidden, func(other string) bool { return isIn(folder, other) }) {
				out = append(out, folder)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isIn reports whether a path is the folder or below it.
func isIn(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// Command is what a confined process runs.
type Command struct {
	Program string   `json:"program"` // as the process sees it; relative to Dir
	Args    []string `json:"args"`
	Env     []string `json:"env"`
	Dir     string   `json:"dir"`
	Files   int      `json:"files"` // how many descriptors it gets, from 0 on
}

// SetupError says why a process could not be confined.
type SetupError struct {
	What string // "a user namespace"
	Err  error
}

// Error says what the machine does not give.
func (e *SetupError) Error() string { return "no " + e.What + ": " + e.Err.Error() }

// Unwrap returns the system's error.
func (e *SetupError) Unwrap() error { return e.Err }

// ScopeABI is the version of Landlock's interface that keeps abstract sockets apart. It came with Linux 6.12.
const ScopeABI = 6
