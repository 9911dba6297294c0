package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Orphans on Linux. A daemon that left its group and session is re-parented to this program, its subreaper. The kernel
// keeps no record of whose it was, so when several processes run, an orphan is attributed by, in this order:
//
//   - its session or group: those of a process are named by its pid (this covers background jobs of `set -m`);
//   - the session of an orphan attributed before, for that orphan's children;
//   - the output pipes that it holds open;
//   - the temporary folder in its environment, when those of the running processes differ: every run has one of its own;
//   - its age: it cannot belong to a process that started later. So with no other process running, it is ours.
//
// An orphan that fits several running processes is left to whichever of them ends last. Nothing marks the environment.

// sweepLimit bounds how long Run kills orphans. More is left only when they multiply faster than they die.
const sweepLimit = 2 * time.Second

// family is every process that this package has started and that may still have living members of its group.
// The lock is held over every fork, so that no child is seen that is not in it yet, and over every look at the children, so
// that no pid is reused between the look and the kill.
var family = struct {
	sync.Mutex
	members map[int]*child

	together     bool     // processes end with this program
	watchdogArgs []string // nil for none
	watchdog     *os.File // what it reads; nil before it is started
	watchdogPid  int
	announced    map[int]bool // orphans that it knows
}{members: map[int]*child{}, announced: map[int]bool{}}

var subreaper atomic.Bool

// EnableSubreaper makes this program adopt the orphans of its processes, so that Run finds and kills daemons. Call it once,
// at the start of main, and start every child process through this package from then on.
func EnableSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming the parent of orphaned processes (PR_SET_CHILD_SUBREAPER): %w", err)
	}
	subreaper.Store(true)
	return nil
}

func (c *child) fork(forkExec func() (int, error)) error {
	family.Lock()
	defer family.Unlock()
	pid, err := forkExec()
	if err == nil {
		c.pid = pid
		family.members[pid] = c
	}
	return err
}

// forget says that the main process is reaped and what is left of its group may be killed by anyone.
func (c *child) forget() {
	family.Lock()
	delete(family.members, c.pid)
	family.Unlock()
}

func orphanTicker() (tick <-chan time.Time, stop func()) {
	if !subreaper.Load() {
		return nil, func() {}
	}
	t := time.NewTicker(reapInterval)
	return t.C, t.Stop
}

// reapDeadOrphans collects orphans that ended by themselves.
func reapDeadOrphans() {
	if !subreaper.Load() || childless() {
		return
	}
	family.Lock()
	defer family.Unlock()
	for _, pid := range children() {
		if family.members[pid] != nil || pid == family.watchdogPid {
			continue
		}
		if reaped(pid) {
			delete(family.announced, pid)
		} else if family.watchdog != nil && !family.announced[pid] {
			family.announced[pid] = true
			announce(pid, "")
		}
	}
}

// childless reports whether this program has no children at all, dead ones included. It is one system call.
func childless() bool {
	return errors.Is(unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil), unix.ECHILD)
}

// reaped collects an orphan if it is dead, and reports whether it is gone.
func reaped(pid int) bool {
	got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return got == pid || errors.Is(err, unix.ECHILD)
}

// killOrphans kills and reaps every orphan that is c's. The children of one that dies become orphans in turn, so it looks
// again until there are none.
func (c *child) killOrphans() {
	if !subreaper.Load() {
		return
	}
	sessions := map[int]bool{}
	pause := shortPause
	for limit := time.Now().Add(sweepLimit); !childless() && c.killSomeOrphans(sessions) && time.Now().Before(limit); {
		time.Sleep(pause)
		pause = min(2*pause, longPause)
	}
}

// killSomeOrphans kills the orphans of c that are there now and adds their sessions to those known to be c's. It reports
// whether it found any.
func (c *child) killSomeOrphans(sessions map[int]bool) (found bool) {
	family.Lock()
	defer family.Unlock()
	for _, pid := range children() {
		if family.members[pid] != nil || pid == family.watchdogPid || reaped(pid) {
			continue
		}
		o, ok := inspect(pid)
		if !ok || !c.owns(o, sessions) {
			continue
		}
		sessions[o.session] = true
		_ = unix.Kill(pid, unix.SIGKILL)
		found = true
	}
	return found
}

// orphan is what the kernel tells about a process.
type orphan struct {
	pid, parent, group, session int
	started                     uint64 // in clock ticks since the system started
	dead                        bool   // and not reaped
}

// owns applies the rules at the top of this file.
func (c *child) owns(o orphan, sessions map[int]bool) bool {
	if o.session == c.pid || o.group == c.pid {
		return true
	}
	if family.members[o.session] != nil || family.members[o.group] != nil {
		return false
	}
	if sessions[o.session] || len(family.members) == 0 {
		return true
	}
	held := pipesOf(o.pid)
	if c.holdsOneOf(held) {
		return true
	}
	for _, other := range family.members {
		if other.holdsOneOf(held) {
			return false
		}
	}
	if temp := tempOfProcess(o.pid); temp != "" && temp == c.temp && !tempInUse(temp) {
		return true
	}
	for _, other := range family.members {
		if main, ok := inspect(other.pid); !ok || main.started <= o.started {
			return false
		}
	}
	return true
}

// tempInUse reports whether a running process has a temporary folder.
func tempInUse(temp string) bool {
	for _, other := range family.members {
		if other.temp == temp {
			return true
		}
	}
	return false
}

// tempOfProcess returns the temporary folder in the environment that a process was started with; "" when it has none or may not be
// looked into.
func tempOfProcess(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	return tempOf(strings.Split(string(data), "\x00"))
}

// holdsOneOf reports whether one of c's output pipes is among those of another process.
func (c *child) holdsOneOf(held map[string]bool) bool {
	for _, p := range c.pipes {
		if p == nil || len(held) == 0 {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstat(p.fd, &st); err == nil && held["pipe:["+strconv.FormatUint(st.Ino, 10)+"]"] {
			return true
		}
	}
	return false
}

// pipesOf returns the names of the pipes that a process has open; none when it may not be looked into.
func pipesOf(pid int) map[string]bool {
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	held := map[string]bool{}
	for _, name := range names {
		if target, err := os.Readlink(dir + name); err == nil && strings.HasPrefix(target, "pipe:") {
			held[target] = true
		}
	}
	return held
}

// inspect reads /proc/PID/stat. The fields after the command, which is in brackets and may hold anything, are: state, parent,
// group, session and, sixteen further on, the time of the start.
func inspect(pid int) (orphan, bool) {
	data, err := readProc(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return orphan{}, false
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 20 {
		return orphan{}, false
	}
	o := orphan{pid: pid, dead: fields[0][0] == 'Z' || fields[0][0] == 'X'}
	o.parent, _ = strconv.Atoi(string(fields[1]))
	o.group, _ = strconv.Atoi(string(fields[2]))
	o.session, _ = strconv.Atoi(string(fields[3]))
	o.started, _ = strconv.ParseUint(string(fields[19]), 10, 64)
	return o, true
}

// readProc reads a file of the kernel's. Package os would ask the runtime's poller first, which is most of what it costs, for every process.
func readProc(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	data := make([]byte, 0, 1<<10)
	for {
		n, err := unix.Read(fd, data[len(data):cap(data)])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, err
		case n == 0:
			return data, nil
		default:
			data = slices.Grow(data[:len(data)+n], 1)
		}
	}
}

// children returns the children of this program. Orphans are always adopted by its first thread, which the kernel has a list
// for; where it does not, every process is looked at.
func children() []int {
	self := os.Getpid()
	if data, err := readProc(fmt.Sprintf("/proc/self/task/%d/children", self)); err == nil {
		return pids(strings.Fields(string(data)), nil)
	}
	f, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return pids(names, func(pid int) bool {
		o, ok := inspect(pid)
		return ok && o.parent == self
	})
}

func pids(names []string, keep func(int) bool) []int {
	var out []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && (keep == nil || keep(pid)) {
			out = append(out, pid)
		}
	}
	return out
}
