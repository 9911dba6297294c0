package confine

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// systemFolders are what a view always has, for reading. Other folders of the root may hold anything.
var systemFolders = []string{
	"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/opt", "/nix/store", "/gnu/store",
	"/sys/devices/system", "/sys/fs/cgroup", // how many processors and how much memory there are
}

// systemFiles are files elsewhere that links in those folders lead to, and every program needs.
func systemFiles() []Path {
	var out []Path
	for _, link := range []string{"/etc/resolv.conf", "/etc/hosts", "/etc/localtime"} {
		if target, err := filepath.EvalSymlinks(link); err == nil && !strings.HasPrefix(target, "/etc/") && !strings.HasPrefix(target, "/usr/") {
			out = append(out, Path{At: target})
		}
	}
	return out
}

// maxRootsFiles bounds how much of /etc is hidden from root's processes.
const maxRootsFiles = 1000

// rootsFiles are what only root, or a group, may read in /etc: passwords and keys. Processes of root do not see it in their view; others are
// kept from it anyway.
var rootsFiles = sync.OnceValue(func() []string {
	if os.Geteuid() != 0 {
		return nil
	}
	var out []string
	_ = filepath.WalkDir("/etc", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		info, err := entry.Info()
		switch {
		case err != nil || info.Mode().Perm()&0o004 != 0:
			return nil
		case len(out) == maxRootsFiles:
			return fs.SkipAll
		}
		out = append(out, path)
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return out
})
