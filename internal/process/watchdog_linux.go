package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The watchdog is a process of this program that outlives it when it is killed, and then kills what it has left running. It is started when
// a process has run for superviseAfter, a built-in step (Spec.Tidy) for reapInterval: most end sooner, and starting another would cost
// more than they do. Until then the kernel kills the process
// itself with its parent (endTogether), though not what that has started.
//
// It reads from a pipe which processes run: "+PID STARTED TEMP" and "-PID". The end of the pipe without a "-" for each is a kill. STARTED,
// in the kernel's clock ticks, tells a process from another that got its ID; TEMP, the run's own temporary folder, finds daemons that left
// the session of their process, by their environment. Daemons that are older than reapInterval are announced like processes.

const (
	// ownTemp is in the path of a temporary folder that belongs to one run alone.
	ownTemp = "/step-runner-"
	// watchdogPause is the time between two looks of the watchdog at what it has killed, and watchdogLooks how often it looks.
	watchdogPause = 5 * time.Millisecond
	watchdogLooks = 400
)

// EndTogether makes the kernel kill each process that this program starts when this program is killed. Once a watchdog knows this program, it also
// finds what those processes have started.
func EndTogether() {
	family.Lock()
	defer family.Unlock()
	family.together = true
}

// EnableWatchdog says how this program is started as its own watchdog: with which arguments it calls Watchdog. Call it once, at the start
// of main.
func EnableWatchdog(args ...string) {
	family.Lock()
	defer family.Unlock()
	family.watchdogArgs, family.together = args, true
}

// endTogether makes the kernel kill a process that is about to start when this program is killed, where no watchdog runs that would. The
// kernel takes the end of the thread that starts the process for that of the program; threads of Go end only with goroutines that are locked to
// them, so nobody may call Run on such a one.
func endTogether(attr *syscall.SysProcAttr) {
	family.Lock()
	defer family.Unlock()
	if family.together && family.watchdog == nil {
		attr.Pdeathsig = syscall.SIGKILL
	}
}

func (c *child) isTidy() bool { return c.tidy }

// watch makes the watchdog know a process, and starts it if it must.
func (c *child) watch(mayStart bool) {
	family.Lock()
	defer family.Unlock()
	if c.outlives || c.watched || family.watchdogArgs == nil || family.members[c.pid] != c || family.watchdog == nil && !mayStart {
		return
	}
	c.watched = true
	if family.watchdog != nil {
		announce(c.pid, c.temp)
		return
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return
	}
	defer theirs.Close()
	family.watchdog = ours
	announce(c.pid, c.temp) // first, so that it knows the process as soon as it runs
	if family.watchdogPid, err = startWatchdog(theirs); err != nil {
		family.watchdogArgs, family.together = nil, false // there is none on this machine
	}
}

// announce tells the watchdog of a process. The family is locked.
func announce(pid int, temp string) {
	if o, ok := inspect(pid); ok {
		_, _ = fmt.Fprintf(family.watchdog, "+%d %d %q\n", pid, o.started, temp)
	}
}

// unwatch tells the watchdog that nothing is left of a process.
func (c *child) unwatch() {
	family.Lock()
	defer family.Unlock()
	if c.watched {
		_, _ = fmt.Fprintf(family.watchdog, "-%d\n", c.pid)
	}
}

// startWatchdog starts it, in a session of its own, with an environment that says no more than where temporary folders are. The family is
// locked.
func startWatchdog(from *os.File) (pid int, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	return syscall.ForkExec("/proc/self/exe", family.watchdogArgs, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{"TMPDIR=" + os.TempDir(), "GOMAXPROCS=1"},
		Files: []uintptr{from.Fd(), null.Fd(), null.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

// charge is a process that the watchdog knows.
type charge struct {
	started uint64
	temp    string
}

// Watchdog is what the watchdog does: it reads what processes run until its program has ended, and kills those that still do.
func Watchdog(from io.Reader) {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP) // they are for the program
	parent := os.Getppid()
	running := map[int]charge{}
	for lines := bufio.NewScanner(from); lines.Scan(); {
		follow(running, lines.Text())
	}
	for range watchdogLooks {
		if os.Getppid() != parent {
			break
		}
		time.Sleep(watchdogPause) // its files are closed before it is gone
	}
	if len(running) == 0 {
		return
	}
	sessions := map[int]bool{}
	for range watchdogLooks {
		if !killWatched(running, sessions) {
			return
		}
		time.Sleep(watchdogPause)
	}
}

// follow applies a line to what runs.
func follow(running map[int]charge, line string) {
	if len(line) < 2 {
		return
	}
	fields := strings.SplitN(line[1:], " ", 3)
	pid, err := strconv.Atoi(fields[0])
	if err != nil || pid <= 1 {
		return
	}
	if line[0] == '-' {
		delete(running, pid)
		return
	}
	if len(fields) == 3 {
		started, _ := strconv.ParseUint(fields[1], 10, 64)
		temp, _ := strconv.Unquote(fields[2])
		running[pid] = charge{started, temp}
	}
}

// killWatched kills every process that is, or belongs to, one of those running, and reports whether it found any that is not dead.
func killWatched(running map[int]charge, sessions map[int]bool) (found bool) {
	temps := map[string]bool{}
	for _, w := range running {
		if strings.Contains(w.temp, ownTemp) {
			temps[w.temp] = true
		}
	}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, err := strconv.Atoi(filepath.Base(dir))
		o, ok := inspect(pid)
		if err != nil || !ok || pid == os.Getpid() || o.dead {
			continue
		}
		main, known := running[pid]
		switch {
		case known && main.started == o.started, sessions[o.session], belongs(running, o.session, o), belongs(running, o.group, o):
		case len(temps) > 0 && temps[tempOfProcess(pid)]:
		default:
			continue
		}
		sessions[o.session] = true
		found = unix.Kill(pid, unix.SIGKILL) == nil || found
	}
	return found
}

// belongs reports whether a process is in the session or group of one that was running: it cannot be older than that.
func belongs(running map[int]charge, leader int, o orphan) bool {
	main, ok := running[leader]
	return ok && main.started <= o.started
}
