//go:build unix

package process

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungci/rung/internal/confine"
	"github.com/rungci/rung/internal/shellword"
	"github.com/rungci/rung/internal/textbusy"
)

const (
	// groupDelay is how long Run waits for a killed group to be gone. Longer waits do not help: what is left is a zombie
	// that nobody collects, or stuck in the kernel.
	groupDelay = 100 * time.Millisecond
	// shortPause and longPause bound the pauses between two looks at what is left.
	shortPause = 50 * time.Microsecond
	longPause  = 20 * time.Millisecond
)

// child is a process that Run started. Its pid is the id of its group and session as well.
type child struct {
	pid      int
	pidfd    int      // Linux only; -1 where there is none
	pipes    [2]*pipe // its output, which tells its orphans apart; may be nil
	temp     string   // the temporary folder in its environment, which tells them apart, too; "" is none
	watched  bool     // by the watchdog
	outlives bool
	tidy     bool
	inside   *confine.Child // what it is confined with; nil when it is not. pid is its init then
	status   syscall.WaitStatus
	reaped   atomic.Bool
	neverRan bool // it was killed before it executed its program
}

func start(spec *Spec, in *input, out *output) (*child, error) {
	if len(spec.Args) == 0 || spec.Args[0] == "" {
		return nil, spec.invalid()
	}
	program, err := spec.program()
	if err != nil {
		if dirErr := spec.checkDir(); dirErr != nil {
			return nil, dirErr
		}
		return nil, err
	}
	attr := &syscall.ProcAttr{
		Dir:   spec.Dir,
		Env:   spec.Env,
		Files: []uintptr{in.child.Fd(), out.childOut.Fd(), out.childErr.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: spec.Terminal != nil}, // the terminal is descriptor 0
	}
	if u := spec.User; u != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: u.ID, Gid: u.Group, Groups: u.Groups}
	}
	for _, file := range spec.Files {
		attr.Files = append(attr.Files, file.Fd())
	}
	c := &child{pidfd: -1, pipes: [2]*pipe{out.streams[0].pipe, out.streams[1].pipe}, temp: tempOf(spec.Env), outlives: spec.Outlives, tidy: spec.Tidy}
	wantPidfd(attr.Sys, &c.pidfd)
	leave, err := intoGroup(attr.Sys, spec.Group)
	if err != nil {
		return nil, spec.fail(nil, err, "%s cannot start in its control group: %v", program, err)
	}
	defer leave()
	if spec.Confine != nil {
		if err := c.startConfined(spec, program, attr); err != nil {
			return nil, err
		}
		return c, nil
	}
	if !spec.Outlives {
		endTogether(attr.Sys)
	}
	err = textbusy.Retry(func() error {
		return c.fork(func() (int, error) { return syscall.ForkExec(program, spec.Args, attr) })
	})
	if err != nil {
		return nil, spec.explain(program, err)
	}
	return c, nil
}

func (c *child) id() int { return c.pid }

// explain finds out why a start failed. The system's error alone does not say which of the files is meant.
func (s *Spec) explain(program string, err error) error {
	if dirErr := s.checkDir(); dirErr != nil {
		return dirErr
	}
	file := s.inDir(program)
	info, statErr := os.Stat(file)
	switch {
	case errors.Is(err, unix.E2BIG):
		return s.failTooLong(err)
	case errors.Is(err, unix.ENOEXEC):
		return s.fail(ErrNotExecutable, err, "%s is not a program for this system: it has no #! line, or is for another architecture", program)
	case errors.Is(err, unix.ETXTBSY):
		return s.fail(ErrNotExecutable, err, "%s is open for writing in another process; wait until it is complete", program)
	case errors.Is(statErr, fs.ErrNotExist):
		return s.fail(ErrNotFound, err, "%s does not exist; correct its path, which is relative to %s", program, s.dirName())
	case statErr != nil:
		return s.fail(ErrNotFound, err, "%s cannot be reached: %v", program, cause(statErr))
	case info.IsDir():
		return s.fail(ErrNotExecutable, err, "%s is a directory; name a program in it", program)
	case errors.Is(err, unix.ENOENT):
		return s.fail(ErrNotExecutable, err, "%s needs %s to run, which does not exist; install it or correct the #! line", program, interpreter(file))
	case errors.Is(err, unix.EACCES) && info.Mode()&0o111 == 0:
		return s.fail(ErrNotExecutable, err, "%s has no execute permission; run chmod +x on it or start it with its interpreter", program)
	case errors.Is(err, unix.EACCES) && s.User != nil && s.Dir != "": // what root may do says nothing
		return s.fail(ErrNotExecutable, err, "no permission to enter the work directory %s or to execute %s, as the user with the number %d; check with: sudo -u '#%[3]d' ls -ld %s/. %s",
			s.Dir, program, s.User.ID, shellword.Of(s.Dir), shellword.Of(file))
	case errors.Is(err, unix.EACCES):
		return s.fail(ErrNotExecutable, err, "no permission to execute %s or its interpreter: this user may not, or its file system is mounted noexec", program)
	}
	if invalid := s.invalid(); invalid != nil {
		return invalid
	}
	return s.fail(nil, err, "%v", err)
}

func (s *Spec) dirName() string {
	if s.Dir == "" {
		return "the work directory"
	}
	return s.Dir
}

// interpreter returns the program that the file's #! line names, for an error message.
func interpreter(file string) string {
	const other = "a loader or library"
	f, err := os.Open(file)
	if err != nil {
		return other
	}
	defer f.Close()
	buf := make([]byte, 256)
	n, _ := f.Read(buf)
	line, _, _ := strings.Cut(string(buf[:n]), "\n")
	rest, script := strings.CutPrefix(line, "#!")
	fields := strings.Fields(rest)
	if !script || len(fields) == 0 {
		return other
	}
	if strings.HasSuffix(line, "\r") {
		return fields[0] + " with a carriage return at the end (the file has Windows line ends)"
	}
	return fields[0]
}

// terminate asks the group to stop. A stopped group is continued, so that it can.
func (c *child) terminate() {
	_ = unix.Kill(-c.pid, unix.SIGTERM)
	_ = unix.Kill(-c.pid, unix.SIGCONT)
}

// kill kills the group, unless it is known to be gone: its id may have a new owner then.
func (c *child) kill() {
	if !c.reaped.Load() || c.groupLives() {
		_ = unix.Kill(-c.pid, unix.SIGKILL)
	}
}

// groupLives reports whether anything, a zombie perhaps, is in the group.
func (c *child) groupLives() bool { return unix.Kill(-c.pid, 0) == nil }

// reap takes the exit status of the main process, which has ended.
func (c *child) reap() {
	for !c.reaped.Load() {
		_, err := syscall.Wait4(c.pid, &c.status, 0, nil)
		c.reaped.Store(!errors.Is(err, syscall.EINTR))
	}
}

// awaitGroup waits, after a polite stop that the main process has followed, for the rest of its group to follow as well.
func (c *child) awaitGroup(over <-chan time.Time, kill <-chan struct{}) {
	c.reap()
	pause := shortPause
	for c.groupLives() {
		select {
		case <-over:
			return
		case <-kill:
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longPause)
		reapDeadOrphans()
	}
}

// finish kills what is left of a process that has ended and returns how it ended.
func (c *child) finish() Result {
	c.neverRan = !c.reaped.Load() && c.forkedKilled()
	c.kill()
	c.reap()
	c.forget()
	c.killOrphans()
	c.unwatch()
	for pause, waited := shortPause, time.Duration(0); c.groupLives() && waited < groupDelay; pause = min(2*pause, longPause) {
		time.Sleep(pause)
		waited += pause
	}
	if result, ok := c.confinedResult(); ok {
		return result
	}
	if c.status.Signaled() {
		return Result{ExitCode: -1, Signal: signalName(c.status.Signal())}
	}
	return Result{ExitCode: c.status.ExitStatus()}
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return s.String()
}

func hasSeparator(name string) bool { return strings.Contains(name, "/") }

func sameName(a, b string) bool { return a == b }

// programAt leaves the check to the system: only when it refuses is there something to find out.
func (s *Spec) programAt(path string) (string, error) { return path, nil }

// executable returns the file when it can be a program.
func executable(file string, _ []string) (string, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		if errors.Is(err, unix.ENOTDIR) {
			return "", fs.ErrNotExist
		}
		return "", cause(err)
	case info.IsDir():
		return "", fs.ErrNotExist // a folder of that name is not a program, as for a shell
	case info.Mode()&0o111 == 0:
		return "", errors.New("has no execute permission; run chmod +x on it")
	}
	return file, nil
}

func enterable(dir string) error { return unix.Access(dir, unix.X_OK) }

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// readFd reads from a descriptor that does not block.
func readFd(fd int, buf []byte) (n int, atEnd bool) {
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return n, n == 0 || err != nil && !errors.Is(err, unix.EAGAIN)
	}
}

// tempOf returns the temporary folder in an environment; "" is none.
func tempOf(env []string) string {
	for _, pair := range env {
		if temp, ok := strings.CutPrefix(pair, "TMPDIR="); ok {
			return temp
		}
	}
	return ""
}
