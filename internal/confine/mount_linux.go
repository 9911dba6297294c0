package confine

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// base is where the new root is put together. What is there is mounted again anyway.
const base = "/proc"

// devices are what a view has of /dev, besides terminals and memory of its own.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// mountAll makes the root file system of the view, and enters it.
func (c *container) mountAll() error {
	unix.Umask(0o022)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return &SetupError{"mount namespace", err}
	}
	if err := tmpfs(base, "mode=755"); err != nil {
		return &SetupError{"mount namespace", err}
	}
	for _, make := range []func() error{makeDev, c.makeLayers, makeProc, enter} { // a work directory may be in /dev/shm
		if err := make(); err != nil {
			return err
		}
	}
	return nil
}

// makeLayers mounts the paths of the view.
func (c *container) makeLayers() error {
	for _, p := range c.layers() {
		if err := p.mount(); err != nil {
			return &SetupError{"mount of " + p.At + " in its view", err}
		}
	}
	return nil
}

// layer is a path of a view, or what hides one.
type layer struct {
	Path
	hides bool
	holds bool // other layers are below what hides: they get their places in memory, not on somebody's disk
}

// layers are all paths of the view, those below others after them.
func (c *container) layers() []layer {
	var all []layer
	for _, path := range systemFolders {
		all = append(all, layer{Path: Path{At: path}})
	}
	for _, path := range c.View.Hidden {
		below := func(p Path) bool { return p.At != path && isIn(p.At, path) }
		all = append(all, layer{Path: Path{At: path}, hides: true, holds: slices.ContainsFunc(c.View.Paths, below)})
		for _, folder := range c.View.above(path) {
			all = append(all, layer{Path: Path{At: folder, Writable: true}})
		}
	}
	for _, p := range c.View.Paths {
		if !c.View.hasAlready(p, systemFolders) {
			all = append(all, layer{Path: p})
		}
	}
	slices.SortStableFunc(all, func(a, b layer) int {
		return cmp.Compare(strings.Count(a.At, "/"), strings.Count(b.At, "/"))
	})
	return all
}

func (l *layer) mount() error {
	from := cmp.Or(l.From, l.At)
	info, err := os.Lstat(from)
	if l.From == "" && err == nil && info.Mode()&fs.ModeSymlink != 0 && slices.Contains(systemFolders, l.At) {
		target, err := os.Readlink(from) // /bin -> usr/bin
		if err != nil {
			return err
		}
		return os.Symlink(target, base+l.At)
	}
	if info, err = os.Stat(from); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	target := filepath.Join(base, l.At)
	if !l.hides || l.holds {
		if err := place(target, info.IsDir()); err != nil {
			return err
		}
	}
	if l.hides {
		return hide(target, info.IsDir())
	}
	if err := unix.Mount(from, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	attributes := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}
	if !l.Writable {
		attributes.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	return unix.MountSetattr(-1, target, unix.AT_RECURSIVE, attributes)
}

// place makes where something is to be mounted, if it does not exist.
func place(target string, dir bool) error {
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	if dir {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return unix.Mknod(target, unix.S_IFREG|0o644, 0)
}

// hide puts something empty in the place of what the view would have there.
func hide(target string, dir bool) error {
	if _, err := os.Lstat(target); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if dir {
		return tmpfs(target, "mode=755")
	}
	if err := unix.Mount(os.DevNull, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.MountSetattr(-1, target, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

func tmpfs(target, options string) error {
	return unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options)
}

// makeDev makes a /dev with what every program expects.
func makeDev() error {
	dev := base + "/dev"
	for _, name := range devices {
		d := layer{Path: Path{At: "/dev/" + name, Writable: true}}
		if err := d.mount(); err != nil {
			return &SetupError{"mount of /dev/" + name, err}
		}
	}
	for link, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, filepath.Join(dev, link)); err != nil {
			return err
		}
	}
	for _, name := range []string{"shm", "pts"} {
		if err := os.MkdirAll(filepath.Join(dev, name), 0o755); err != nil {
			return err
		}
	}
	if err := tmpfs(dev+"/shm", "mode=1777"); err != nil {
		return &SetupError{"/dev/shm of its own", err}
	}
	if err := unix.Mount("devpts", dev+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"); err != nil {
		return &SetupError{"terminals of its own", err}
	}
	return nil
}

// makeProc makes a /proc of the own processes, in which nothing can be written: what root owns there is about the whole machine.
func makeProc() error {
	proc := base + "/proc"
	if err := os.Mkdir(proc, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return &SetupError{"/proc of its own (a container that hides parts of /proc does not allow one)", err}
	}
	// A user namespace in this one would bring its own capabilities; it is not needed, and much of the kernel is behind it.
	if err := os.WriteFile(proc+"/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		return &SetupError{"limit of user namespaces", err}
	}
	if err := unix.MountSetattr(-1, proc, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return &SetupError{"read-only /proc", err}
	}
	return nil
}

// enter makes the new root the root, and leaves the old one.
func enter() error {
	err := unix.Chdir(base)
	if err == nil {
		err = unix.PivotRoot(".", ".")
	}
	if err == nil {
		err = unix.Unmount(".", unix.MNT_DETACH)
	}
	if err == nil {
		err = unix.Chdir("/")
	}
	if err == nil {
		err = unix.MountSetattr(-1, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	}
	if err != nil {
		return &SetupError{"root of its own (it needs a root file system that is a mount)", err}
	}
	return nil
}
