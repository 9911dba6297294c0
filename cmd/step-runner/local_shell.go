package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/local"
)

// resizeEvery is how often the size of the terminal is looked at while a shell is open: not every system tells of changes.
const resizeEvery = 500 * time.Millisecond

// oneShell lets jobs that fail at the same time have their shells one after the other.
var oneShell sync.Mutex

// openShell lets a person look around in a job that failed.
func (a *app) openShell(ctx context.Context, job local.ShellJob) {
	oneShell.Lock()
	defer oneShell.Unlock()
	if ctx.Err() != nil {
		return
	}
	fmt.Fprintf(a.stderr, "a shell in the job %s, in %s; exit ends it\n", job.Name, job.Dir)
	shell := &executor.Shell{Dir: job.Dir, Env: job.Env, Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr}
	if in, ok := a.stdin.(*os.File); ok && isTerminal(in) && isTerminal(a.stdout) {
		if old, err := term.MakeRaw(int(in.Fd())); err == nil {
			defer term.Restore(int(in.Fd()), old)
			shell.Terminal = true
			var stop func()
			shell.Resize, stop = watchSize(a.stdout)
			defer stop()
		}
	}
	if _, err := job.Environment.Shell(ctx, shell); err != nil {
		fmt.Fprintf(a.stderr, "the shell ended: %v\r\n", err)
	}
}

// watchSize sends the size of a terminal, and every new one.
func watchSize(f *os.File) (<-chan executor.Size, func()) {
	sizes, done := make(chan executor.Size, 1), make(chan struct{})
	go func() {
		tick := time.NewTicker(resizeEvery)
		defer tick.Stop()
		var last executor.Size
		for {
			w, h := terminalSize(f)
			if size := (executor.Size{Columns: uint16(w), Rows: uint16(h)}); size != last {
				last = size
				select {
				case sizes <- size:
				case <-done:
					return
				}
			}
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return sizes, func() { close(done) }
}
