package cgroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Group is a control group. It is plain data, so that another process can find it again.
type Group struct {
	// Dirs are its folders: one for each controller in version 1, and one, whose key is empty, in version 2.
	Dirs map[string]string `json:"dirs"`

	tree *Tree             // that it can be made in; nil for one that another process made
	from map[string]string // where its path begins, by controller
	path []string          // of groups, from there
}

// Usage is what a group has used.
type Usage struct {
	Peak      int64 // the most memory at any time, in bytes; 0 if the kernel does not say
	Memory    int64 // the limit of memory, in bytes; 0 is none
	Kills     int64 // processes that the kernel has killed for want of memory
	Throttled int64 // periods in which processes had to wait because of the limit of processors
	Refused   int64 // processes that could not be started because of their limit
}

const (
	// makeTries is how often a group is made whose parent another process removes at that moment.
	makeTries = 10
	// shortPause and longPause bound the pauses between two looks at what is left in a group.
	shortPause = 500 * time.Microsecond
	longPause  = 20 * time.Millisecond
	// freezeTime bounds how long a group may take to freeze. It is killed anyhow.
	freezeTime = time.Second
)

// Group returns the group with a name in that of a slot, or in one of our own if slot is empty. Make makes it.
func (t *Tree) Group(slot, name string) (*Group, error) {
	path, from := folder, t.bases
	if slot != "" {
		if err := checkSlot(slot); err != nil {
			return nil, err
		}
		path, from = slot, t.tops
	}
	g := &Group{Dirs: map[string]string{}, tree: t, from: from, path: append(strings.Split(path, "/"), name)}
	for key, base := range from {
		g.Dirs[key] = filepath.Join(base, filepath.FromSlash(path), name)
	}
	return g, nil
}

// Make makes the group. Groups above it are made if they do not exist, and those of slots stay.
func (g *Group) Make() error {
	var err error
	for range makeTries {
		err = g.makeFolders()
		if !errors.Is(err, fs.ErrNotExist) && !isRemoved(err) {
			break
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("making a control group: %w", err), g.removeFolders())
	}
	return nil
}

func (g *Group) makeFolders() error {
	for _, key := range slices.Sorted(maps.Keys(g.Dirs)) {
		dir := g.from[key]
		for _, element := range g.path {
			if g.tree.Version == 2 {
				if err := g.tree.give(dir); err != nil {
					return err
				}
			}
			if err := g.tree.enter(&dir, element, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// enter makes the group with a name in another, if it does not exist, and makes dir that one.
func (t *Tree) enter(dir *string, name, controller string) error {
	above := *dir
	*dir = filepath.Join(above, name)
	err := t.sys.mkdir(*dir)
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err != nil || controller != cpuset {
		return err
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // no process may be in a group without them
		if len(words(filepath.Join(*dir, file))) > 0 {
			continue
		}
		if err := t.sys.write(filepath.Join(*dir, file), strings.Join(words(filepath.Join(above, file)), "")); err != nil {
			return err
		}
	}
	return nil
}

// version is 2 or 1.
func (g *Group) version() int {
	if _, is := g.Dirs[unified]; is {
		return 2
	}
	return 1
}

// dir is the folder of the group that has the files of a controller; "" if there is none.
func (g *Group) dir(controller string) string { return cmp.Or(g.Dirs[unified], g.Dirs[controller]) }

func (g *Group) file(controller, name string) string {
	return filepath.Join(g.dir(controller), controller+"."+name)
}

// Folder is the group's, where it has one alone: a process can be started straight into that (CLONE_INTO_CGROUP).
func (g *Group) Folder() (dir string, is bool) {
	dir, is = g.Dirs[unified]
	return dir, is
}

// launcher moves itself into groups and becomes a command. A single thread that moves itself does not wait for other processors, which takes
// version 1 ten milliseconds where a process is moved (cgroup_procs_write_start in the kernel).
const launcher = `while [ "$1" != -- ]; do
  f=$1/tasks; [ -e "$f" ] || f=$1/cgroup.procs
  echo 0 >"$f" || exit 126
  shift
done
shift; exec "$@"`

// Launch returns the arguments that begin a command in the group: a shell which enters it, and then becomes the command.
func (g *Group) Launch(args []string) []string {
	out := []string{"/bin/sh", "-c", launcher, "sh"}
	return append(append(append(out, g.folders()...), "--"), args...)
}

// folders are those of the group, each once.
func (g *Group) folders() []string {
	return slices.Compact(slices.Sorted(maps.Values(g.Dirs)))
}

// Usage reads what the group has used.
func (g *Group) Usage() Usage {
	var u Usage
	if g.version() == 2 {
		u.Peak = number(g.file(memory, "peak"))
		u.Memory = number(g.file(memory, "max"))
		u.Kills = counter(g.file(memory, "events"), "oom_kill")
		u.Refused = counter(g.file(pids, "events"), "max")
	} else {
		u.Peak = number(g.file(memory, "max_usage_in_bytes"))
		if u.Memory = number(g.file(memory, "limit_in_bytes")); u.Memory > 1<<60 { // its "no limit"
			u.Memory = 0
		}
		u.Kills = counter(g.file(memory, "oom_control"), "oom_kill")
		u.Refused = counter(g.file(pids, "events"), "max")
	}
	u.Throttled = counter(g.file(cpu, "stat"), "nr_throttled")
	return u
}

// Words says how much memory was used, to go on with a sentence: ": the job used 95 MiB, and may use 96 MiB". It is empty where there is no limit.
func (u Usage) Words() string {
	switch {
	case u.Memory == 0:
		return ""
	case u.Peak == 0:
		return fmt.Sprintf(": the job may use %s", mebibytes(u.Memory))
	}
	return fmt.Sprintf(": the job used %s, and may use %s", mebibytes(u.Peak), mebibytes(u.Memory))
}

func mebibytes(n int64) string {
	return strconv.FormatFloat(math.Round(float64(n)/(1<<20)*10)/10, 'f', -1, 64) + " MiB"
}

// number reads a file with a number; 0 is one that says "max", or is not there.
func number(file string) int64 {
	found := words(file)
	if len(found) != 1 {
		return 0
	}
	n, _ := strconv.ParseInt(found[0], 10, 64)
	return n
}

// counter reads the line "NAME NUMBER" of a file.
func counter(file, name string) int64 {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}

// Kill kills all processes of the group, and of groups in it, and waits until they are gone.
func (g *Group) Kill(ctx context.Context) error {
	for pause := shortPause; ; pause = min(2*pause, longPause) {
		left := g.processes()
		if len(left) == 0 {
			return nil
		}
		g.killOnce(ctx, left)
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes of the control group %s are still running: %w", g.folders()[0], context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

func (g *Group) killOnce(ctx context.Context, left []int) {
	if dir, is := g.Folder(); is && write(filepath.Join(dir, "cgroup.kill"), "1") == nil { // since Linux 5.14
		return
	}
	g.freeze(ctx, true)
	for _, pid := range append(left, g.processes()...) {
		if p, err := os.FindProcess(pid); err == nil && pid != os.Getpid() {
			_ = p.Kill()
			_ = p.Release()
		}
	}
	g.freeze(ctx, false) // a process of version 1 dies when it thaws
}

// freeze keeps processes from starting others while they are killed, or ends that. A group that does not freeze is killed anyhow.
func (g *Group) freeze(ctx context.Context, yes bool) {
	if dir, is := g.Folder(); is {
		text := "0"
		if yes {
			text = "1"
		}
		_ = write(filepath.Join(dir, "cgroup.freeze"), text)
		return
	}
	state := g.file(freezer, "state")
	if !yes {
		_ = write(state, "THAWED")
		return
	}
	_ = write(state, "FROZEN")
	over := time.Now().Add(freezeTime)
	for strings.Join(words(state), "") == "FREEZING" && ctx.Err() == nil && time.Now().Before(over) {
		time.Sleep(shortPause)
	}
}

// processes are those of the group and of groups in it.
func (g *Group) processes() []int {
	var out []int
	for _, root := range g.folders() {
		_ = filepath.WalkDir(root, func(dir string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return nil // a group that is gone has none
			}
			for _, word := range words(filepath.Join(dir, "cgroup.procs")) {
				if pid, err := strconv.Atoi(word); err == nil && pid > 0 { // 0 is one that this process cannot see
					out = append(out, pid)
				}
			}
			return nil
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Remove kills what is in the group and removes it. A group that is gone already is fine.
func (g *Group) Remove(ctx context.Context) error {
	for pause := shortPause; ; pause = min(2*pause, longPause) {
		if err := g.Kill(ctx); err != nil {
			return err
		}
		err := g.removeFolders()
		if err == nil || !isBusy(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("removing a control group: %w", err)
		case <-time.After(pause): // the kernel has not yet counted all processes out
		}
	}
}

// removeFolders removes the group's folders with the groups in them, and our group above when it has no other one.
func (g *Group) removeFolders() error {
	var problems []error
	for _, root := range g.folders() {
		var dirs []string
		_ = filepath.WalkDir(root, func(dir string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, dir)
			}
			return nil // what is gone need not be removed
		})
		for _, dir := range slices.Backward(dirs) {
			if err := removeGroup(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				problems = append(problems, &fs.PathError{Op: "rmdir", Path: dir, Err: err})
			}
		}
		if above := filepath.Dir(root); filepath.Base(above) == folder {
			_ = removeGroup(above) // not while another group is in it
		}
	}
	return errors.Join(problems...)
}

// Exists reports whether something of the group is there.
func (g *Group) Exists() bool {
	return slices.ContainsFunc(g.folders(), func(dir string) bool {
		_, err := os.Stat(dir)
		return err == nil
	})
}
