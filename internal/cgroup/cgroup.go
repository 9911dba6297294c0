// Package cgroup makes control groups: what bounds processes of Linux together, counts what they use, and kills them as a whole. It
// knows version 2 and, where that is what a machine has, version 1 (the kernel's Documentation/admin-guide/cgroup-v2.rst and
// cgroup-v1/).
//
//	Open ──> Tree ──> Make ──> Group     Start: a process begins in it, and never runs outside
//	                             ├── Limit, Usage
//	                             └── Kill, Remove
//
// A group of version 2 is one folder. One of version 1 is a folder in the hierarchy of each controller.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// folder is the group in which groups are made that name no other one. It goes with the last of them.
	folder = "rung"
	// selfFolder is the leaf that processes of a delegated group move to: a group of version 2 that has others in it has no processes.
	selfFolder = "rung-self"
	// unified is the key of the one hierarchy of version 2.
	unified = ""
)

// The controllers that are used. The first three are those that a machine must have.
const (
	memory  = "memory"
	pids    = "pids"
	cpu     = "cpu"
	cpuset  = "cpuset"
	io      = "io"
	freezer = "freezer" // of version 1; groups of version 2 freeze without one
)

var (
	needed   = []string{memory, pids, cpu}
	wanted   = []string{memory, pids, cpu, cpuset, io}      // of version 2
	wantedV1 = []string{memory, pids, cpu, cpuset, freezer} // its blkio bounds no write that goes through memory
)

// Tree is the part of a machine's control groups in which this process may make groups.
type Tree struct {
	sys *system
	// Version is 2 or 1.
	Version int
	// controllers are those of its groups.
	controllers []string
	// bases are the folders below which groups are made, by controller, or for all of them.
	bases map[string]string
	// tops are the folders that the names of slots start from.
	tops map[string]string
}

// system is the machine; tests have a made-up one.
type system struct {
	root string // "" is the machine's own
	uid  int
	// mkdir makes a group, whose files the kernel makes.
	mkdir func(dir string) error
	write func(file, text string) error
	// delegated reports whether systemd gave the group away.
	delegated func(dir string) bool
}

// Open finds where groups can be made. The error says in a sentence what is missing, and the command that gives it.
func Open() (*Tree, error) {
	return open(machine())
}

func open(s *system) (*Tree, error) {
	mounts, own, err := s.hierarchies()
	if err != nil {
		return nil, errors.New("this machine has no control groups; only Linux has them")
	}
	if m, found := mounts[unified]; found {
		if _, missing := choose(needed, s.controllers(m.dir)); len(missing) == 0 {
			return s.openUnified(m, own[unified])
		}
	}
	return s.openSeparate(mounts, own)
}

// openUnified finds the place in version 2.
func (s *system) openUnified(m mount, own string) (*Tree, error) {
	base := m.folder(own)
	switch {
	case s.uid == 0 && base != m.dir && !s.delegated(base):
		base = m.dir
	case s.uid != 0 && !writable(filepath.Join(base, "cgroup.subtree_control")):
		return nil, fmt.Errorf("user %d may not make control groups in %s; start this program in a group that systemd delegates: systemd-run --user --scope -p Delegate=yes COMMAND", s.uid, base)
	}
	there, missing := choose(wanted, s.controllers(base))
	for _, name := range missing {
		if slices.Contains(needed, name) {
			return nil, fmt.Errorf("the control group %s has no controller %s; have systemd delegate it: sudo systemctl edit --drop-in=delegate user@.service, with the lines [Service] and Delegate=cpu cpuset io memory pids, and log in again", base, name)
		}
	}
	t := &Tree{sys: s, Version: 2, controllers: there, bases: map[string]string{unified: base}, tops: map[string]string{unified: base}}
	if s.uid == 0 {
		t.tops[unified] = m.dir
	}
	return t, t.give(base)
}

// openSeparate finds the places in version 1.
func (s *system) openSeparate(mounts map[string]mount, own map[string]string) (*Tree, error) {
	t := &Tree{sys: s, Version: 1, bases: map[string]string{}, tops: map[string]string{}}
	var missing []string
	for _, name := range wantedV1 {
		m, found := mounts[name]
		if !found {
			if slices.Contains(needed, name) || name == freezer {
				missing = append(missing, name)
			}
			continue
		}
		t.controllers = append(t.controllers, name)
		t.bases[name], t.tops[name] = m.folder(own[name]), m.dir
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("no control groups for %s are mounted on this machine; mount them: mount -t cgroup2 none /sys/fs/cgroup", strings.Join(missing, ", "))
	}
	if !writable(filepath.Join(t.bases[memory], "cgroup.procs")) {
		return nil, fmt.Errorf("user %d may not make control groups of version 1 in %s; start this program as root, with sudo", s.uid, t.bases[memory])
	}
	return t, nil
}

// give makes the controllers of a group of version 2 those of groups in it. Processes in it move to a leaf, where they keep it from that.
func (t *Tree) give(dir string) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	_, missing := choose(t.controllers, words(file))
	if len(missing) == 0 {
		return nil
	}
	text := "+" + strings.Join(missing, " +")
	err := t.sys.write(file, text)
	for range 3 { // processes start others while they are moved
		if !isBusy(err) {
			break
		}
		leaf := filepath.Join(dir, selfFolder)
		if err := t.sys.mkdir(leaf); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		for _, pid := range words(filepath.Join(dir, "cgroup.procs")) {
			if err := t.sys.write(filepath.Join(leaf, "cgroup.procs"), pid); err != nil && !isGone(err) {
				return fmt.Errorf("moving process %s from %s, so that groups in that can have controllers: %w", pid, dir, err)
			}
		}
		err = t.sys.write(file, text)
	}
	if err != nil {
		return fmt.Errorf("giving groups in %s the controllers %s: %w", dir, strings.Join(missing, ", "), err)
	}
	return nil
}

// choose splits names into those of a list and others.
func choose(names, list []string) (there, missing []string) {
	for _, name := range names {
		if slices.Contains(list, name) {
			there = append(there, name)
		} else {
			missing = append(missing, name)
		}
	}
	return there, missing
}

func (s *system) controllers(dir string) []string {
	return words(filepath.Join(dir, "cgroup.controllers"))
}

// mount is where a hierarchy, or the part of it below root, is found.
type mount struct{ dir, root string }

// folder is that of a group, or of the part that is mounted where the group is not in it.
func (m mount) folder(group string) string {
	rel, err := filepath.Rel(m.root, group)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return m.dir
	}
	dir := filepath.Join(m.dir, rel)
	if _, err := os.Stat(dir); err != nil {
		return m.dir
	}
	return dir
}

// hierarchies returns what is mounted, and the groups of this process, by controller (proc(5): mountinfo, cgroup).
func (s *system) hierarchies() (mounts map[string]mount, own map[string]string, err error) {
	info, err := os.ReadFile(s.root + "/proc/self/mountinfo")
	if err != nil {
		return nil, nil, err
	}
	mounts, own = map[string]mount{}, map[string]string{}
	for line := range strings.Lines(string(info)) {
		where, what, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		place, kind := strings.Fields(where), strings.Fields(what)
		if len(place) < 5 || len(kind) < 3 {
			continue
		}
		m := mount{dir: s.root + place[4], root: place[3]}
		switch kind[0] {
		case "cgroup2":
			mounts[unified] = m
		case "cgroup":
			for option := range strings.SplitSeq(kind[2], ",") {
				mounts[option] = m
			}
		}
	}
	groups, err := os.ReadFile(s.root + "/proc/self/cgroup")
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(string(groups)) {
		if fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(fields) == 3 {
			for name := range strings.SplitSeq(fields[1], ",") {
				own[name] = fields[2]
			}
		}
	}
	return mounts, own, nil
}

func words(file string) []string {
	text, _ := os.ReadFile(file)
	return strings.Fields(string(text))
}

func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func writable(file string) bool {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}
