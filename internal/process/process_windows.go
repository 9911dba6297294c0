package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	// groupDelay is how long Run waits for a terminated job to be empty.
	groupDelay = 2 * time.Second
	// jobPause is the pause between two looks at a job.
	jobPause = 10 * time.Millisecond
	// killedExitCode is what terminated processes exit with, as those that the task manager ends do.
	killedExitCode = 1
	// defaultExtensions are those of programs when the environment has no PATHEXT.
	defaultExtensions = ".COM;.EXE;.BAT;.CMD"
)

// ntResumeProcess starts a suspended process. The documented way needs the handle of its thread, which os.StartProcess
// closes.
var ntResumeProcess = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")

// child is a process that Run started, and the job object that holds it and all that it starts.
type child struct {
	process  *os.Process
	job      windows.Handle
	state    *os.ProcessState
	killed   bool
	neverRan bool // only Unix has processes that do not run their program yet
}

func start(spec *Spec, in *input, out *output) (*child, error) {
	if err := spec.invalid(); err != nil {
		return nil, err
	}
	program, err := spec.program()
	if err != nil {
		if dirErr := spec.checkDir(); dirErr != nil {
			return nil, dirErr
		}
		return nil, err
	}
	if spec.Group != "" || spec.User != nil {
		return nil, spec.fail(nil, nil, "there are no control groups, and no processes of other users, on Windows")
	}
	job, err := newJob()
	if err != nil {
		return nil, spec.fail(nil, err, "making a job object for it: %v", err)
	}
	process, err := os.StartProcess(program, spec.Args, &os.ProcAttr{
		Dir:   spec.Dir,
		Env:   spec.Env,
		Files: []*os.File{in.child, out.childOut, out.childErr},
		Sys:   &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_SUSPENDED},
	})
	if err != nil {
		windows.CloseHandle(job)
		return nil, spec.explain(program, err)
	}
	if err := enterJob(process, job); err != nil {
		_ = process.Kill()
		_, _ = process.Wait()
		windows.CloseHandle(job)
		return nil, spec.fail(nil, err, "putting it into a job object: %v", err)
	}
	return &child{process: process, job: job}, nil
}

func (c *child) id() int { return c.process.Pid }

// newJob returns a job object whose processes end with its last handle, and so with this program.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		windows.CloseHandle(job)
		return 0, err
	}
	return job, nil
}

// enterJob puts the suspended process into the job and lets it run, so that nothing it starts is outside.
func enterJob(process *os.Process, job windows.Handle) error {
	var err error
	handleErr := process.WithHandle(func(handle uintptr) {
		if err = windows.AssignProcessToJobObject(job, windows.Handle(handle)); err != nil {
			return
		}
		if status, _, _ := ntResumeProcess.Call(handle); status != 0 {
			err = fmt.Errorf("resuming it: %w", windows.NTStatus(status))
		}
	})
	return errors.Join(handleErr, err)
}

// explain finds out why a start failed.
func (s *Spec) explain(program string, err error) error {
	if dirErr := s.checkDir(); dirErr != nil {
		return dirErr
	}
	switch {
	case errors.Is(err, windows.ERROR_FILENAME_EXCED_RANGE):
		return s.failTooLong(err)
	case errors.Is(err, windows.ERROR_BAD_EXE_FORMAT):
		return s.fail(ErrNotExecutable, err, "%s is not a program for this system; it may be for another architecture, or a script that needs its interpreter named", program)
	case errors.Is(err, fs.ErrNotExist):
		return s.fail(ErrNotFound, err, "%s does not exist; correct its path", program)
	case errors.Is(err, fs.ErrPermission):
		return s.fail(ErrNotExecutable, err, "no permission to execute %s, or it is a directory", program)
	}
	return s.fail(nil, err, "%v", cause(err))
}

// awaitEnd blocks until the main process has ended.
func (c *child) awaitEnd() { c.state, _ = c.process.Wait() }

// terminate sends CTRL_BREAK to the console process group. A process without a console does not get it and is killed after
// the grace.
func (c *child) terminate() {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(c.process.Pid))
}

// kill ends every process of the job.
func (c *child) kill() {
	c.killed = true
	_ = windows.TerminateJobObject(c.job, killedExitCode)
}

// jobAccounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION.
type jobAccounting struct {
	times           [4]int64
	pageFaults      uint32
	total           uint32
	active          uint32
	totalTerminated uint32
}

// active returns how many processes of the job live.
func (c *child) active() uint32 {
	const basicAccountingInformation = 1
	var info jobAccounting
	err := windows.QueryInformationJobObject(c.job, basicAccountingInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)), nil)
	if err != nil {
		return 0
	}
	return info.active
}

// awaitGroup waits, after a polite stop that the main process has followed, for the rest of its job to follow as well.
func (c *child) awaitGroup(over <-chan time.Time, kill <-chan struct{}) {
	for c.active() > 0 {
		select {
		case <-over:
			return
		case <-kill:
			return
		case <-time.After(jobPause):
		}
	}
}

// finish ends what is left of the job and returns how the main process ended.
func (c *child) finish() Result {
	_ = windows.TerminateJobObject(c.job, killedExitCode)
	for waited := time.Duration(0); c.active() > 0 && waited < groupDelay; waited += jobPause {
		time.Sleep(jobPause)
	}
	windows.CloseHandle(c.job)
	switch {
	case c.state == nil:
		return notStarted
	case c.killed && c.state.ExitCode() == killedExitCode:
		return Result{ExitCode: -1, Signal: "SIGKILL"}
	default:
		return Result{ExitCode: c.state.ExitCode()}
	}
}

func hasSeparator(name string) bool { return strings.ContainsAny(name, `/\:`) }

func sameName(a, b string) bool { return strings.EqualFold(a, b) }

// programAt finds the extension of a program that is named without.
func (s *Spec) programAt(path string) (string, error) {
	found, err := executable(s.inDir(path), s.Env)
	if err != nil {
		return "", s.fail(ErrNotFound, err, "%s does not exist; correct its path", path)
	}
	return strings.TrimSuffix(path, filepath.Base(path)) + filepath.Base(found), nil
}

// executable returns the file, with one of the extensions in PATHEXT added when it has none of them.
func executable(file string, env []string) (string, error) {
	extensions := defaultExtensions
	for _, v := range env {
		if name, value, ok := strings.Cut(v, "="); ok && sameName(name, "PATHEXT") && value != "" {
			extensions = value
		}
	}
	candidates := []string{}
	for _, ext := range strings.Split(extensions, ";") {
		if ext == "" {
			continue
		}
		if strings.EqualFold(filepath.Ext(file), ext) {
			candidates = []string{file}
			break
		}
		candidates = append(candidates, file+ext)
	}
	for _, candidate := range candidates {
		if info, err := os.Stat(candidate); err == nil && !info.IsDir() {
			return candidate, nil
		}
	}
	return "", fs.ErrNotExist
}

func enterable(string) error { return nil }
