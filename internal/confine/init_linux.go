package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// exit ends the init. os.Exit would wait for a second under the race detector, which each confined step would wait for.
var exit = syscall.Exit

// The init runs before the rest of this program is initialized, which would take longer than all that it does.
func init() {
	if os.Getpid() != 1 || len(os.Args) != 2 || os.Args[0] != initName {
		return
	}
	runtime.LockOSThread() // capabilities are a thread's
	files, err := strconv.Atoi(os.Args[1])
	if err != nil {
		exit(2)
	}
	c := &container{control: os.NewFile(uintptr(files+1), "control")}
	// Also what our program itself was started with: a folder among it would be a way out.
	_ = unix.CloseRange(uint(files), math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	settings, err := io.ReadAll(io.NewSectionReader(os.NewFile(uintptr(files), "config"), 0, maxConfig))
	if err == nil {
		err = json.Unmarshal(settings, &c.config)
	}
	if err != nil {
		c.fail(&SetupError{"settings", err})
	}
	c.run()
}

// maxConfig bounds what an init is told, in bytes: arguments and environment are at most 6 MiB on Linux, as JSON a few times that.
const maxConfig = 64 << 20

// container is what the init of a confined process looks after.
type container struct {
	config
	control *os.File
}

func (c *container) run() {
	go func() {
		_, _ = c.control.Read(make([]byte, 1)) // nobody writes: it is the end of the process that we are for
		exit(1)
	}()
	if err := c.setUp(); err != nil {
		c.fail(err)
	}
	if c.Command == nil {
		c.say(answer{})
		exit(0)
	}
	surviveSignals()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM)
	pid, err := c.start()
	if err != nil {
		c.fail(err)
	}
	c.say(answer{})
	letGo(c.Command.Files)
	stopped := make(chan struct{})
	go func() {
		<-stop
		close(stopped)
		for {
			_ = unix.Kill(-pid, unix.SIGTERM)
			_ = unix.Kill(-pid, unix.SIGCONT)
			<-stop
		}
	}()
	status := await(pid)
	select {
	case <-stopped:
		awaitGroup(pid)
	default:
	}
	ended := answer{Ended: true, Exit: status.ExitStatus()}
	if status.Signaled() {
		ended.Exit, ended.Signal = 0, int(status.Signal())
	}
	c.say(ended)
	exit(ended.Exit & 0xff)
}

// surviveSignals keeps the command, which may send signals to its init, from ending it. The kernel withholds signals from process 1 of a
// namespace that it does not handle, but the runtime of Go handles most, and ends a program by them. So they are ignored: to leave them to the
// kernel is not enough, which withholds nothing while the first thread has its signals blocked, as it has while a process or thread starts. The
// command does not inherit that: a child of the runtime begins with the default for all that the runtime handled. os/signal could ignore them,
// too, one signal after the other, each with a change of threads.
func surviveSignals() {
	const lastSignal = 64
	const setSize = (lastSignal + 7) / 8
	// Longer than a struct sigaction of any architecture, all of which begin with the handler; but MIPS, where this is a flag beside SIG_DFL.
	ignore := [8]uint64{1}
	for sig := syscall.Signal(1); sig <= lastSignal; sig++ {
		switch {
		case signal.Ignored(sig): // the command is to ignore it as well
		case sig == unix.SIGTERM, sig == unix.SIGURG: // a polite stop; the runtime's own
		case sig == unix.SIGCHLD: // who ignores it has no children to wait for
		case sig == unix.SIGCONT, sig == unix.SIGTSTP, sig == unix.SIGTTIN, sig == unix.SIGTTOU: // end no process
		case 32 <= sig && sig <= 34: // C's own, which the runtime does not handle: a command that sends one may end itself
		default: // SIGKILL and SIGSTOP cannot be set, and need not be
			_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&ignore)), 0, setSize, 0, 0)
		}
	}
}

// start runs the command.
func (c *container) start() (pid int, err error) {
	attr := &syscall.ProcAttr{Dir: c.Command.Dir, Env: c.Command.Env, Sys: &syscall.SysProcAttr{Setsid: true}}
	for fd := range c.Command.Files {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	for try := range busyRetries {
		pid, err = syscall.ForkExec(c.Command.Program, c.Command.Args, attr)
		if !errors.Is(err, syscall.ETXTBSY) {
			break
		}
		time.Sleep(time.Duration(try+1) * time.Millisecond)
	}
	if err != nil {
		return 0, &startError{err}
	}
	return pid, nil
}

// busyRetries bounds how often a program is tried that is open for writing, as in a start without an init.
const busyRetries = 10

// startError is an error of the command.
type startError struct{ err error }

func (e *startError) Error() string { return e.err.Error() }

// letGo closes what the command has, so that its readers and writers see only the command.
func letGo(files int) {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	for fd := range files {
		_ = unix.Dup3(null, fd, unix.O_CLOEXEC)
	}
	_ = unix.Close(null)
}

// await reaps all that ends until the process has.
func await(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		if got == pid || err != nil && !errors.Is(err, syscall.EINTR) {
			return status
		}
	}
}

// awaitGroup waits, after a polite stop that the command has followed, for the rest of its group. Who asked for the stop kills what takes
// too long.
func awaitGroup(pid int) {
	for unix.Kill(-pid, 0) == nil {
		_, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		time.Sleep(time.Millisecond)
	}
}

func (c *container) say(a answer) {
	text, err := json.Marshal(a)
	if err == nil {
		_, _ = c.control.Write(text)
	}
}

// fail says why there is no command, and ends.
func (c *container) fail(err error) {
	var setup *SetupError
	var start *startError
	a := answer{Reason: err.Error()}
	switch {
	case errors.As(err, &start):
		a.Start, err = true, start.err
	case errors.As(err, &setup):
		a.Failed, a.Reason = setup.What, setup.Err.Error()
	default:
		a.Failed = "view"
	}
	_ = errors.As(err, &a.Errno)
	if setup != nil && a.Reason != a.Errno.Error() {
		a.Errno = 0
	}
	c.say(a)
	exit(1)
}

// setUp makes the view, and gives up all that it took to make it.
func (c *container) setUp() error {
	if err := c.mapUser(); err != nil {
		return &SetupError{"user namespace with a map", err}
	}
	if err := c.mountAll(); err != nil {
		return err
	}
	// Keyrings are not part of any namespace.
	_, _ = unix.KeyctlJoinSessionKeyring("")
	if err := c.landlock(); err != nil {
		return &SetupError{"Landlock", err}
	}
	if err := withholdKeys(); err != nil {
		return &SetupError{"filter of system calls", err}
	}
	if err := dropCapabilities(c.UID); err != nil {
		return &SetupError{"way to give up capabilities", err}
	}
	// The command has the same user: this keeps it from looking into its init.
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// mapUser gives the user its own ID in the namespace.
func (c *container) mapUser() error {
	for _, file := range []struct{ name, text string }{
		{"setgroups", "deny"},
		{"gid_map", fmt.Sprintf("%d %d 1\n", c.GID, c.GID)},
		{"uid_map", fmt.Sprintf("%d %d 1\n", c.UID, c.UID)},
	} {
		if err := os.WriteFile("/proc/self/"+file.name, []byte(file.text), 0); err != nil {
			return err
		}
	}
	return nil
}
