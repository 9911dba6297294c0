// Package process runs one process of a step so that nothing is left behind: when Run returns, the process is reaped, what
// it started is dead and its output has been handed on to the last byte.
//
// On Unix a process gets a session of its own, and so a process group too. It has no controlling terminal: a program that
// asks for a password fails at once where it would otherwise hang in the background. When the process ends, the rest of
// its group is killed. On Linux, after EnableSubreaper, daemons that left the group are found and killed as well; see
// orphans_linux.go for whose orphan is whose. On Windows everything lives in a job object that is terminated.
//
// EnableSubreaper makes this program the parent of every orphan below it, so the package reaps children that it did not
// start itself. A program that enables it must start all of its children through Run: another package that waits for a
// child (os/exec) would find it killed as an orphan.
//
// When this program itself is killed, its watchdog kills what it was running (watchdog_linux.go). On Windows the job object closes with this
// program and takes its processes along; elsewhere they live on.
package process

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/rungci/rung/internal/confine"
)

const (
	// WaitDelay is how long Run waits, after everything that it could find was killed, for a straggler to let go of the
	// output pipes. What is in the pipes by then is still handed on.
	WaitDelay = 2 * time.Second
	// reapInterval is how often a long Run collects dead orphans, so that they do not fill the process table.
	reapInterval = time.Second
)

// firstFile is the descriptor of the first of Spec.Files.
const firstFile = 3

// ErrKilled is what Run returns when the kill channel stopped the process and the context had not ended.
var ErrKilled = errors.New("the process was killed on request")

// Spec is what to run.
type Spec struct {
	// Args is the argument vector. Args[0] is the program: a name without a separator is looked up in the PATH of Env (not
	// that of this program); a relative path with a separator is relative to Dir.
	Args []string
	// Dir is the work directory; empty is that of this program.
	Dir string
	// Env is the complete environment as NAME=value, each name once.
	Env []string
	// Stdin is what the process reads, through a pipe that ends after it. Empty gives it the null device.
	Stdin []byte
	// Input is read instead of Stdin, as it comes, until it ends or the process has. A read that is under way then is not waited
	// for, and what it gets is lost.
	Input io.Reader
	// Files are what else the process is given, see FilePath. They stay the caller's. They are ignored on Windows.
	Files []*os.File
	// Terminal gives the process a terminal instead of Stdin, Input, Stdout and Stderr. There are none on Windows.
	Terminal *Terminal
	// Stdout and Stderr get the output as it comes, at most 32 KiB a call. Each is called from one goroutine, but the two
	// at the same time. When both are the same writer, one pipe serves both: it is called from one goroutine and sees the
	// output in the order in which it was written. Nil discards. Run does not return while a call is under way.
	Stdout, Stderr io.Writer
	// Grace is the time between the polite signal and the kill.
	Grace time.Duration
	// Confine is what the process sees of the machine; nil is all that this program's user does. Only Linux confines processes; where one
	// cannot be, it does not start, and the *StartError is ErrConfine.
	Confine *confine.View
	// Group is the folder of a control group that the process starts in (Linux, version 2); empty is that of this program.
	Group string
	// User is who the process runs as; nil is who this program does. Only root has others.
	User *User
	// Outlives says that the process runs on when this program is killed, except on Windows.
	Outlives bool
	// Tidy says that the kernel ends what the process has started when it ends, as with EndTogether. No watchdog is started for it before
	// it has run for a second or is asked to stop.
	Tidy bool
	// Started is called once the process runs, with its ID, which on Unix is also that of its group and session; nil is nothing.
	Started func(pid int)
}

// User is a user of the system, by numbers.
type User struct {
	ID, Group uint32
	Groups    []uint32 // supplementary
}

// Result is how a process ended.
type Result struct {
	// ExitCode is -1 when the process was killed by a signal or did not start.
	ExitCode int
	// Signal is the name of the signal that killed the process ("SIGKILL"), else "". A process that Run killed on Windows
	// has "SIGKILL" too.
	Signal string
}

var notStarted = Result{ExitCode: -1}

// Run starts a process, gives it its input, hands on its output and waits for it.
//
// When ctx is done, the process and its group are asked to stop (SIGTERM; CTRL_BREAK on Windows) and killed when they are
// still there after spec.Grace. When kill is closed, they are killed at once. A nil kill never stops anything.
//
// The error is nil when the process ran to an end by itself, whatever its exit code. A process that did not start gives a
// *StartError, which is one of ErrNotFound, ErrNotExecutable, ErrWorkDir and ErrTooLong where one of them fits. A process that
// was stopped gives context.Cause(ctx), or ErrKilled. A process whose output could not be written gives an *OutputError;
// it is not stopped, the rest of that output is discarded.
func Run(ctx context.Context, kill <-chan struct{}, spec Spec) (Result, error) {
	if ctx.Err() != nil {
		return notStarted, context.Cause(ctx)
	}
	select {
	case <-kill:
		return notStarted, ErrKilled
	default:
	}
	if err := spec.confinable(); err != nil {
		return notStarted, err
	}
	in, out, term, err := openStreams(&spec)
	if err != nil {
		return notStarted, err
	}
	c, err := start(&spec, in, out)
	in.closeChildEnd()
	out.closeChildEnds()
	if err != nil {
		in.discard()
		out.discard()
		term.discard()
		return notStarted, err
	}
	if spec.Started != nil {
		spec.Started(c.id())
	}
	in.write()
	term.carry()
	c.watch(false)
	stopped := attend(ctx, kill, spec.Grace, c, out)
	result := c.finish()
	in.stop()
	outputErr := errors.Join(out.drain(), term.finish())

	switch {
	case !stopped && c.neverRan:
		return notStarted, spec.fail(nil, nil, "something killed its process before the program ran in it")
	case !stopped:
		return result, outputErr
	case ctx.Err() != nil:
		return result, context.Cause(ctx)
	default:
		return result, ErrKilled
	}
}

// attendInBackground copies the output and waits in goroutines of their own while it supervises the process. It reports
// whether it stopped it.
func attendInBackground(ctx context.Context, kill <-chan struct{}, grace time.Duration, c *child, out *output) (stopped bool) {
	out.copy()
	ended := make(chan struct{})
	go func() {
		c.awaitEnd()
		close(ended)
	}()
	claim := func() bool {
		stopped = true
		return true
	}
	supervise(ctx, kill, grace, c, ended, claim)
	return stopped
}

// supervise stops the process when it is asked to. It waits until the main process has ended and, after a polite stop, until
// its group is gone or the grace is over. It sends no signal unless claim, which it calls before the first, returns true.
func supervise(ctx context.Context, kill <-chan struct{}, grace time.Duration, c *child, ended <-chan struct{}, claim func() bool) {
	tick, stopTick := orphanTicker()
	if !c.isTidy() || tick == nil {
		c.watch(true)
	}
	defer stopTick()
	for {
		select {
		case <-ended:
			return
		case <-kill:
			if claim() {
				c.kill()
				<-ended
			}
			return
		case <-tick:
			c.watch(true)
			reapDeadOrphans()
			continue
		case <-ctx.Done():
		}
		break
	}
	if !claim() {
		return
	}
	c.watch(true) // it has its grace, which may be long
	c.terminate()
	over := time.NewTimer(grace)
	defer over.Stop()
	select {
	case <-ended:
		c.awaitGroup(over.C, kill)
		return
	case <-over.C:
	case <-kill:
	}
	c.kill()
	<-ended
}
