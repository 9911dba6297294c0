package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

// What is in the folder of a paused run.
const (
	stateFile  = "state.json" // engine.State.Document; it is written last, so a folder without it is not a state
	filesInDir = "files"      // home and temporary files
)

// pauseFlags say where a run stops, and where it goes on.
type pauseFlags struct {
	before string // a step's name, or its number
	state  string // the folder that takes the state
	resume string // the folder of a paused run
}

func (o *pauseFlags) declare(f *pflag.FlagSet) {
	f.StringVar(&o.before, "pause-before", "", "stop before the `STEP` of the list, write the state to --state and exit with 7")
	f.StringVar(&o.state, "state", "", "write the state of a paused run to the new folder `DIR`")
	f.StringVar(&o.resume, "resume", "", "resume the run that was paused with --state `DIR`")
}

// check finds what is wrong with the command line alone.
func (o *pauseFlags) check(env bool) error {
	switch {
	case o.before != "" && o.state == "":
		return exit.Usage("--pause-before requires --state").Hinted("--state DIR names a new folder for the state of the run")
	case o.before == "" && o.state != "":
		return exit.Usage("--state requires --pause-before")
	case o.resume != "" && env:
		return exit.Usage("--env and --env-file cannot be used with --resume: the environment is part of the state")
	}
	return nil
}

// pausing is the part of a session that stops at a boundary.
type pausing struct {
	step    *plan.Step // nil when the run is not to stop
	dir     string
	made    bool // dir, by us
	control *engine.Control
	refuse  context.CancelCauseFunc
	reached bool // the run got to the boundary
	written bool // the state is in dir
}

// open checks the flags against what is run, reads the state that a run goes on from, and makes the folder for the new one.
func (o *pauseFlags) open(opts *engine.Options) (*pausing, error) {
	after := 0
	if o.resume != "" {
		if err := readState(o.resume, opts); err != nil {
			return nil, err
		}
		after, _ = strconv.Atoi(opts.From.Before()) // it has been checked
	}
	p := &pausing{dir: o.state}
	if o.before == "" {
		return p, nil
	}
	number, err := findStep(opts.Component.Definition.Steps, o.before)
	if err != nil {
		return nil, err
	}
	p.step = &opts.Component.Definition.Steps[number-1]
	if number <= after {
		return nil, exit.Usage("the run resumes with step %d and cannot be paused before step %d (%s)", after, number, p.step.Name)
	}
	if p.made, err = emptyFolder(o.state); err != nil {
		return nil, err
	}
	p.control = &engine.Control{}
	p.control.PauseBefore(strconv.Itoa(number), p.refused)
	opts.Control = p.control
	return p, nil
}

// readState makes the options those of the run whose state is in the folder.
func readState(dir string, opts *engine.Options) error {
	path := filepath.Join(dir, stateFile)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return exit.Coded(exit.NotFound, "--resume: %s is not the state of a paused run: it has no %s", dir, stateFile)
	} else if err != nil {
		return exit.Coded(exit.System, "--resume: %v", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, engine.MaxState+1))
	if err != nil {
		return exit.Coded(exit.System, "--resume: %v", err)
	}
	if opts.From, err = engine.ParseState(text, nil); err == nil {
		opts.Files = filepath.Join(dir, filesInDir)
		err = opts.From.Fits(opts, opts.Files)
	}
	if err != nil {
		return exit.Coded(exit.Definition, "--resume: %v", err).
			Hinted("use the same steps, inputs, job variables, secrets and work directory as in the first part")
	}
	return nil
}

// findStep returns the number of the step of the list with the name or number, from 1.
func findStep(steps []plan.Step, name string) (int, error) {
	var names []string
	for i := range steps {
		if steps[i].Name == name || strconv.Itoa(i+1) == name {
			return i + 1, nil
		}
		for j := range steps[i].Parallel {
			if steps[i].Parallel[j].Name == name {
				return 0, exit.Coded(exit.NotFound, "--pause-before: the step %q is part of a parallel group, in which a run cannot be paused", name).
					Hinted("pause before the group: --pause-before %s", steps[i].Name)
			}
		}
		names = append(names, steps[i].Name)
	}
	if len(names) == 0 {
		return 0, exit.Coded(exit.NotFound, "--pause-before: there is no list of steps to pause in")
	}
	return 0, exit.Coded(exit.NotFound, "--pause-before: the list has no step %q", name).
		Hinted("a run can be paused before the steps of its own list, not inside components; they are: %s", strings.Join(names, ", "))
}

// emptyFolder makes the folder, or checks that it is empty, and reports whether it was made.
func emptyFolder(dir string) (made bool, err error) {
	err = os.Mkdir(dir, 0o700)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, exit.Coded(exit.System, "--state: %v", err)
	}
	switch entries, err := os.ReadDir(dir); {
	case err != nil:
		return false, exit.Usage("--state: %v", err)
	case len(entries) > 0:
		return false, exit.Usage("--state: the folder %s is not empty", dir)
	}
	return false, nil
}

// watch takes the state when the run gets to the boundary. The function it returns waits for that, once the run has ended.
func (p *pausing) watch(ctx context.Context) (context.Context, func()) {
	if p.step == nil {
		return ctx, func() {}
	}
	ctx, p.refuse = context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := p.control.Await(context.Background()); err != nil { // the run ends it
			return
		}
		p.reached = true
		if err := p.take(); err != nil {
			p.refused(err.Error())
			return
		}
		p.written = p.control.Leave() == nil
	}()
	return ctx, func() { <-done; p.refuse(nil) }
}

// refused stops the run: what comes after the boundary must not run unless it was asked for.
func (p *pausing) refused(reason string) {
	p.refuse(event.NewError(event.CodePauseRefused, "cannot pause before the step %q: %s", p.step.Name, reason))
}

// take writes the state. What came of secrets is not written anywhere.
func (p *pausing) take() error {
	state, err := p.control.State(filepath.Join(p.dir, filesInDir))
	if err != nil {
		return err
	}
	if n := len(state.Sensitive); n > 0 {
		err = fmt.Errorf("its state has sensitive text that cannot be written to disk (%d in all: what steps made from secrets, masks, generated tokens)", n)
	} else {
		err = wholefile.WriteText(filepath.Join(p.dir, stateFile), 0o600, state.Document)
	}
	if err != nil {
		engine.RemoveFolder(filepath.Join(p.dir, filesInDir))
	}
	return err
}

// paused reports whether the run goes on from its state.
func (p *pausing) paused() bool { return p.written }

// report tells the user where the state is, or that there is none, and reports whether the run is paused.
func (p *pausing) report(w io.Writer) bool {
	switch {
	case p.written:
		fmt.Fprintf(w, "the state is in %s; to resume with %q, run the same command without --pause-before and --state, and with --resume %s\n", p.dir, p.step.Name, p.dir)
	case p.step != nil && !p.reached:
		fmt.Fprintf(w, "warning: the run did not reach %q; no state was written\n", p.step.Name)
	}
	return p.written
}

// remove removes the folder that was made for a state that was not taken.
func (p *pausing) remove() {
	if p.made && !p.written {
		_ = os.Remove(p.dir)
	}
}
