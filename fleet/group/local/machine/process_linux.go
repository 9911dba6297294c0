package machine

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Process is a process of this host. Its number may be another's later: the time of its start tells them apart, and the boot that it is of.
type Process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // in ticks since the boot
	Boot  string `json:"boot"`
}

// Of is the process that has a number now.
func Of(pid int) (Process, error) {
	now, err := stat(pid)
	if err != nil {
		return Process{}, err
	}
	return Process{PID: pid, Start: now.start, Boot: boot()}, nil
}

// Lives reports whether the process still runs. One that has ended, and that nobody has taken note of, does not.
func (p Process) Lives() bool {
	if p.PID == 0 || p.Boot != boot() {
		return false
	}
	now, err := stat(p.PID)
	return err == nil && now.start == p.Start && now.state != "Z" && now.state != "X"
}

// Kill kills it, if it still runs.
func (p Process) Kill() {
	if p.Lives() {
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
}

// Ask asks it to end, if it still runs. The keeper of a container then removes that.
func (p Process) Ask() {
	if p.Lives() {
		_ = syscall.Kill(p.PID, syscall.SIGTERM)
	}
}

// fields are some of those that the kernel has of a process (proc(5), /proc/pid/stat).
type fields struct {
	state, start string
	parent       int
}

func stat(pid int) (out fields, err error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return out, err
	}
	const stateAt, parentAt, startAt = 0, 1, 19 // behind the name, which may hold anything
	words := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(words) <= startAt {
		return out, fmt.Errorf("the process %d is described by %q", pid, text)
	}
	out.state, out.start = words[stateAt], words[startAt]
	out.parent, err = strconv.Atoi(words[parentAt])
	return out, err
}

func boot() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}
