package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// StopAll stops a process and all that it and its children have started. Of the first process of a machine, that is all that runs there: who loses a
// parent there becomes its child.
func (p Process) StopAll(ctx context.Context) error {
	told := map[int]bool{}
	for {
		running := 0
		for pid, state := range p.tree() {
			if !stopped(state, told[pid]) {
				running++
				told[pid] = syscall.Kill(pid, syscall.SIGSTOP) == nil // one that has ended meanwhile is gone at the next look
			}
		}
		if running == 0 {
			return nil
		}
		const pause = 2 * time.Millisecond
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes have not stopped: %w", running, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

// stopped reports whether a process runs no instruction of its own any more, by its state and whether it has been told to stop. One that waits in the kernel stops there
// as well: a shell waits so until its child executes a program, which it does not if it was stopped before.
func stopped(state string, told bool) bool {
	switch state {
	case "T", "t", "Z", "X":
		return true
	case "D":
		return told
	}
	return false
}

// ContinueAll ends what StopAll began.
func (p Process) ContinueAll() (err error) {
	for pid := range p.tree() {
		if kill := syscall.Kill(pid, syscall.SIGCONT); !errors.Is(kill, syscall.ESRCH) {
			err = errors.Join(err, kill)
		}
	}
	return err
}

// tree is the process and all below it, with their states.
func (p Process) tree() map[int]string {
	children, states := map[int][]int{}, map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(file))
		if err != nil {
			continue
		}
		if fields, err := stat(pid); err == nil {
			children[fields.parent] = append(children[fields.parent], pid)
			states[pid] = fields.state
		}
	}
	out := map[int]string{}
	if !p.Lives() {
		return out
	}
	for left := []int{p.PID}; len(left) > 0; {
		pid := left[0]
		left = append(left[1:], children[pid]...)
		if _, met := out[pid]; met || pid == os.Getpid() {
			continue
		}
		if state, there := states[pid]; there {
			out[pid] = state
		}
	}
	return out
}
