package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/cgroup"
)

const (
	// ownThreads is how many threads gVisor itself may have beside the processes of a job. Idle it has 19.
	ownThreads = 96
	// groupFile describes the control group of a sandbox: it is to be found again when whoever made it was killed.
	groupFile = "group.json"
)

// limitsOf are the limits of a job as a control group holds them, in which all of the sandbox is.
func limitsOf(r executor.Resources) cgroup.Limits {
	l := cgroup.Limits{CPU: r.CPU, Memory: r.Memory, Swap: r.Swap, PIDs: r.PIDs, CPUSet: r.CPUSet}
	if r.PIDs > 0 {
		l.PIDs += ownThreads
	}
	return l
}

// admit refuses limits that this machine's control groups cannot hold.
func (e *Executor) admit(job *executor.Job) error {
	for _, limits := range []cgroup.Limits{limitsOf(job.Resources), limitsOf(job.ServiceResources)} {
		if err := limits.Validate(); err != nil {
			return err
		}
		if limits == (cgroup.Limits{}) {
			continue
		}
		if e.tree == nil {
			return &executor.Refusal{Level: executor.Sandbox, What: fmt.Sprintf("limits on this machine: %v", e.noTree)}
		}
		if lacks := e.tree.Lacks(limits); len(lacks) > 0 {
			return &executor.Refusal{Level: executor.Sandbox, What: fmt.Sprintf("limits of %s on this machine, whose control groups lack them", strings.Join(lacks, ", "))}
		}
	}
	return nil
}

// options are those of runsc that a sandbox needs. disk is the limit of its files in bytes, 0 is none; group is the path of its control group, "" is
// none.
func (b *box) options(disk int64, group string, network bool) []string {
	overlay := "root:dir=" + b.path("upper")
	if disk > 0 {
		overlay += ",size=" + strconv.FormatInt(disk, 10)
	}
	options := []string{"--overlay2=" + overlay, "--allow-suid", "--host-settings=ignore", "--gofer-network-namespace=new"}
	if !network {
		options = append(options, "--network=none")
	}
	if group == "" {
		options = append(options, "--ignore-cgroups")
	}
	return options
}

// bind makes the control group of a sandbox, and returns its path as runsc takes it; "" is none. A sandbox shows its own limits as far as runsc finds
// them in the group.
func (b *box) bind(slot, name string, r executor.Resources) (path string, err error) {
	if limitsOf(r) == (cgroup.Limits{}) && slot == "" {
		return "", nil // which saves the time of making it
	}
	group, err := b.executor.tree.Group(slot, name)
	if err != nil {
		return "", err
	}
	path, others := hierarchies(group, slot)
	return path, b.makeGroup(&grouped{group, others}, limitsOf(r))
}

// makeGroup makes a control group, which is on record before.
func (b *box) makeGroup(group *grouped, limits cgroup.Limits) error {
	text, err := json.Marshal(group)
	if err != nil {
		return err
	}
	const own = 0o600
	if err := os.WriteFile(b.path(groupFile), text, own); err != nil {
		return err
	}
	if err := group.Make(); err != nil {
		return err
	}
	if err := group.Limit(limits); err != nil {
		return err
	}
	for _, dir := range group.Others {
		if err := makeWithParent(dir); err != nil {
			return fmt.Errorf("making a control group: %w", err)
		}
	}
	return nil
}

// groups is where every machine has its control groups.
const groups = "/sys/fs/cgroup"

// grouped is what is kept of a sandbox's control group.
type grouped struct {
	*cgroup.Group
	// Others are its folders in those hierarchies of version 1 that hold no limit: runsc puts a sandbox into a group of each, which it would
	// not remove whole.
	Others []string `json:"others,omitempty"`
}

// hierarchies returns the path of a group as runsc takes it, and its folders in further hierarchies of version 1. A group there that is not
// of a slot is below that of this process, which another hierarchy may have elsewhere; runsc begins at it for a path that is relative.
func hierarchies(group *cgroup.Group, slot string) (path string, others []string) {
	if dir, is := group.Folder(); is {
		return strings.TrimPrefix(dir, groups), nil
	}
	own, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:path
		if len(fields) < 3 || fields[1] == "" {
			continue
		}
		for controller := range strings.SplitSeq(strings.TrimPrefix(fields[1], "name="), ",") {
			dir := filepath.Join(groups, controller, fields[2])
			if slot != "" {
				dir = filepath.Join(groups, controller)
			}
			known := group.Dirs[controller]
			if rest, ok := strings.CutPrefix(known, dir+"/"); ok {
				if path = rest; slot != "" {
					path = "/" + rest
				}
			}
			if _, err := os.Stat(dir); err == nil && known == "" {
				others = append(others, dir)
			}
		}
	}
	for i := range others {
		others[i] = filepath.Join(others[i], path)
	}
	return path, others
}

// makeWithParent makes a group and the one that it is in, which another process may be removing.
func makeWithParent(dir string) (err error) {
	const tries = 10
	for range tries {
		if err = os.MkdirAll(dir, 0o755); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// group is the control group of a sandbox; nil if it has none.
func (b *box) group() (*grouped, error) {
	text, err := os.ReadFile(b.path(groupFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	g := &grouped{}
	if err == nil {
		err = json.Unmarshal(text, g)
	}
	if err != nil || g.Group == nil {
		return nil, fmt.Errorf("reading which control group a sandbox has from %s: %w", b.path(groupFile), err)
	}
	return g, nil
}

// removeGroup kills what is left in the control group of a sandbox, and removes it.
func (b *box) removeGroup(ctx context.Context) error {
	group, err := b.group()
	if err != nil || group == nil {
		return err
	}
	if err := group.Remove(ctx); err != nil {
		return err
	}
	for _, dir := range group.Others {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a control group: %w", err)
		}
		_ = os.Remove(filepath.Dir(dir)) // not while another group is in it, nor a hierarchy
	}
	return nil
}

// exceeded says which limit has ended a sandbox; nil if none has. The kernel kills a sandbox that is out of memory, and gVisor ends when it
// cannot have another thread.
func (b *box) exceeded() *executor.Gone {
	group, err := b.group()
	if err != nil || group == nil {
		return nil
	}
	switch used := group.Usage(); {
	case used.Kills > 0:
		return &executor.Gone{Reason: "it ran out of memory, and the kernel killed its sandbox" + used.Words(), Err: executor.ErrOutOfMemory}
	case used.Refused > 0:
		return &executor.Gone{Reason: "the job started more processes and threads than it may, which ended its sandbox"}
	}
	return nil
}
