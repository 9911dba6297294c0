package confine

import (
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// The rights that came after the first version of Landlock's interface.
const (
	referABI = 2
	ioctlABI = 5
)

// fileRights are the rights to files that are asked for: those of the fifth version. What the kernel does not know is left out.
const fileRights = landlock.AccessFSSet(ll.AccessFSIoctlDev<<1 - 1)

// landlock keeps the process from writing anywhere else than the view says, from changing any mount, and from reaching the abstract sockets
// of others. Signals are not scoped: the namespace of processes does that, and the threads of the init are domains of their own to Landlock.
func (c *container) landlock() error {
	config, err := landlock.NewConfig(fileRights, landlock.ScopedSet(ll.ScopeAbstractUnixSocket))
	if err != nil {
		return err
	}
	writable := []string{"/dev"}
	for _, p := range c.View.Paths {
		if p.Writable {
			writable = append(writable, p.At)
		}
	}
	rights := fileRights
	if c.ABI < ioctlABI {
		rights &^= ll.AccessFSIoctlDev
	}
	if c.ABI < referABI {
		rights &^= ll.AccessFSRefer
	}
	const reading = ll.AccessFSReadFile | ll.AccessFSReadDir | ll.AccessFSExecute
	rules := []landlock.Rule{landlock.PathAccess(reading, "/")}
	for _, path := range writable {
		rules = append(rules, landlock.PathAccess(forKind(rights, path), path).IgnoreIfMissing())
	}
	return config.BestEffort().Restrict(rules...)
}

// forKind are those of the rights that what is at the path can have: a file has no entries.
func forKind(rights landlock.AccessFSSet, path string) landlock.AccessFSSet {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return rights & (ll.AccessFSExecute | ll.AccessFSWriteFile | ll.AccessFSReadFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev)
	}
	return rights
}
