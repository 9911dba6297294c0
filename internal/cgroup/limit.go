package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Limits bound all processes of a group together. 0 and "" mean no limit.
type Limits struct {
	CPU    float64 // processors
	Memory int64   // bytes
	Swap   int64   // bytes of swap space beyond Memory; 0 is none where Memory has a limit
	PIDs   int64   // processes and threads
	CPUSet string  // the processors that may be used, as "0-3,6"
	IO     IO
}

// IO bounds what is read from and written to a disk. 0 means no limit.
type IO struct {
	Disk        string // as "8:0", see Disk
	Read, Write int64  // bytes a second
}

const (
	// period is the time in which a group may use its processors, in microseconds: the kernel's own.
	period = 100_000
	// minQuota is the least that a kernel accepts in a period, in microseconds.
	minQuota = 1_000
)

// Validate refuses limits that no group can hold.
func (l Limits) Validate() error {
	switch {
	case l.CPU < 0 || l.Memory < 0 || l.Swap < 0 || l.PIDs < 0 || l.IO.Read < 0 || l.IO.Write < 0:
		return errors.New("a limit cannot be less than 0")
	case l.Swap > 0 && l.Memory == 0:
		return errors.New("a limit of swap space needs one of memory")
	case l.CPUSet == "":
		return nil
	}
	_, err := processors(l.CPUSet)
	return err
}

// Lacks names the limits that groups of this tree cannot hold, in the words of a message.
func (t *Tree) Lacks(l Limits) []string {
	var out []string
	lack := func(asked bool, controller, words string) {
		if asked && !slices.Contains(t.controllers, controller) {
			out = append(out, words)
		}
	}
	lack(l.CPU > 0, cpu, "processors")
	lack(l.Memory > 0, memory, "memory")
	lack(l.PIDs > 0, pids, "processes")
	lack(l.CPUSet != "", cpuset, "which processors are used")
	lack(l.IO.Read > 0 || l.IO.Write > 0, io, "reading and writing")
	return out
}

// swapFile lists the swap space of the machine.
const swapFile = "/proc/swaps"

// Limit sets the limits of a group that has none.
func (g *Group) Limit(l Limits) error {
	set := func(controller, name, text string) error {
		if err := write(g.file(controller, name), text); err != nil {
			return fmt.Errorf("setting %s.%s of a control group to %s: %w", controller, name, text, err)
		}
		return nil
	}
	var problems []error
	try := func(err error) { problems = append(problems, err) }
	if l.PIDs > 0 {
		try(set(pids, "max", strconv.FormatInt(l.PIDs, 10)))
	}
	if l.Memory > 0 {
		try(g.limitMemory(l, set))
	}
	if l.CPU > 0 {
		quota := max(minQuota, int64(l.CPU*period))
		if g.version() == 2 {
			try(set(cpu, "max", fmt.Sprintf("%d %d", quota, period)))
		} else {
			try(set(cpu, "cfs_period_us", strconv.Itoa(period)))
			try(set(cpu, "cfs_quota_us", strconv.FormatInt(quota, 10)))
		}
	}
	if l.CPUSet != "" {
		if err := g.offers(l.CPUSet); err != nil {
			return err
		}
		try(set(cpuset, "cpus", l.CPUSet))
	}
	if l.IO.Read > 0 || l.IO.Write > 0 {
		text := l.IO.Disk
		if l.IO.Read > 0 {
			text += fmt.Sprintf(" rbps=%d", l.IO.Read)
		}
		if l.IO.Write > 0 {
			text += fmt.Sprintf(" wbps=%d", l.IO.Write)
		}
		try(set(io, "max", text))
	}
	return errors.Join(problems...)
}

// limitMemory limits memory, and then memory and swap space: the kernel takes no second one that is lower than the first.
func (g *Group) limitMemory(l Limits, set func(controller, name, text string) error) error {
	limit, name, total := "max", "swap.max", l.Swap
	if g.version() == 1 {
		limit, name, total = "limit_in_bytes", "memsw.limit_in_bytes", l.Memory+l.Swap
	}
	if err := set(memory, limit, strconv.FormatInt(l.Memory, 10)); err != nil {
		return err
	}
	if _, err := os.Stat(g.file(memory, name)); err != nil {
		if swaps, _ := os.ReadFile(swapFile); strings.Count(string(swaps), "\n") > 1 { // the first line is a heading
			return errors.New("the kernel does not limit swap space, so that memory has no limit; start it with swapaccount=1, or turn swap space off")
		}
		return nil
	}
	return set(memory, name, strconv.FormatInt(total, 10))
}

// offers refuses processors that the group does not have: version 2 would take others instead.
func (g *Group) offers(list string) error {
	asked, err := processors(list)
	if err != nil {
		return err
	}
	file := g.file(cpuset, "cpus") // which was copied from the group above
	if g.version() == 2 {
		file = g.file(cpuset, "cpus.effective")
	}
	text := strings.Join(words(file), "")
	there, err := processors(text)
	if err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(asked)) {
		if !there[n] {
			return fmt.Errorf("processor %d of %q is not available here; those that are: %s", n, list, text)
		}
	}
	return nil
}

// maxProcessor is more than any machine has.
const maxProcessor = 1 << 16

// processors reads a list as "0-3,6".
func processors(list string) (map[int]bool, error) {
	out := map[int]bool{}
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, errA := strconv.Atoi(from)
		b, errB := strconv.Atoi(to)
		if errA != nil || errB != nil || a < 0 || b < a || b > maxProcessor {
			return nil, fmt.Errorf("%q is not a list of processors, such as 0-3,6", list)
		}
		for n := a; n <= b; n++ {
			out[n] = true
		}
	}
	return out, nil
}
