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
	start, _, err := stat(pid)
	if err != nil {
		return Process{}, err
	}
	return Process{PID: pid, Start: start, Boot: boot()}, nil
}

// Lives reports whether the process still runs. One that has ended, and that nobody has taken note of, does not.
func (p Process) Lives() bool {
	if p.PID == 0 || p.Boot != boot() {
		return false
	}
	start, state, err := stat(p.PID)
	return err == nil && start == p.Start && state != "Z" && state != "X"
}

// Kill kills it, if it still runs.
func (p Process) Kill() {
	if p.Lives() {
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
}

// stat is the time when a process began, and its state (proc(5)).
func stat(pid int) (start, state string, err error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", "", err
	}
	const stateAt, startAt = 0, 19 // behind the name, which may hold anything
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= startAt {
		return "", "", fmt.Errorf("the process %d is described by %q", pid, text)
	}
	return fields[startAt], fields[stateAt], nil
}

func boot() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}
