package manager

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/job"
	"github.com/rungci/rung/manager/policy"
	"github.com/rungci/rung/manager/store"
	"github.com/rungci/rung/steps/event"
)

const (
	// probeTime bounds a question to a level.
	probeTime = 30 * time.Second
)

// UnableMessage is what the log says when Observer.Unable is told.
const UnableMessage = "the runner cannot run jobs and takes none until it can"

// fitFor is how long an entry that could run jobs is believed to be able to, while its state folder has room.
var fitFor = 10 * time.Second

// unfitPause is how long an entry that cannot run jobs rests before it looks again.
var unfitPause = 10 * time.Second

// fitness is whether the jobs of an entry could be run. A runner that takes jobs and fails each of them at once would empty GitLab's queue.
type fitness struct {
	doubt atomic.Bool // look again before the next job

	mu     sync.Mutex // held while it is looked
	looked time.Time
	err    error
}

// fit reports whether the entry's jobs could be run now. If not, the entry rests.
func (e *entry) fit(ctx, life context.Context) bool {
	f := &e.fitness
	f.mu.Lock()
	defer f.mu.Unlock()
	believed := !f.doubt.Swap(false) && f.err == nil && time.Since(f.looked) < fitFor
	if believed && store.HasRoom(e.manager.o.State) == nil { // one job fills a disk in a moment
		return true
	}
	before := f.err
	f.err, f.looked = e.look(ctx, life), time.Now()
	if life.Err() != nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.err == nil {
		if before != nil {
			e.log.Info("the runner can run jobs again and takes them")
		}
		e.unable = ""
		return true
	}
	if before == nil || before.Error() != f.err.Error() {
		e.log.Error(UnableMessage, "error", f.err, "checks_again_every", unfitPause)
		e.manager.o.Observer.Unable(e.manager.named(e.runner), f.err)
	}
	e.unable, e.resting = f.err.Error(), time.Now().Add(unfitPause)
	return false
}

// look finds out why the entry's jobs could not be run; nil if they could, as far as that can be known without one.
func (e *entry) look(ctx, life context.Context) error {
	if err := store.HasRoom(e.manager.o.State); err != nil {
		return err
	}
	if e.supply != nil { // its machines are not known yet
		return nil
	}
	of := e.isolation().Default
	opened, err := e.manager.levels.open(ctx, e, of)
	defer e.manager.levels.leave(opened)
	if err != nil {
		return fmt.Errorf("the isolation level %s cannot be used: %w", of, err)
	}
	if err := e.isolation().Admit(opened.executor); err != nil {
		return err
	}
	if prober, ok := opened.executor.(executor.Prober); ok {
		ctx, cancel := context.WithTimeout(life, probeTime)
		defer cancel()
		var least executor.Job
		if of.Rank() < executor.Container.Rank() && !opened.executor.Capabilities().Driver { // whose folders are in its place
			home(e.manager.o.State, e.settings(), &least)
		}
		if err := prober.Probe(ctx, &least); err != nil {
			return fmt.Errorf("the isolation level %s cannot be used: %w", of, err)
		}
	}
	if err := e.settings().NoShell(of, exec.LookPath); err != nil {
		return err
	}
	return accepts(opened.executor, e.settings())
}

// accepts says which rule of the operator the level cannot keep, and so no job could either.
func accepts(level executor.Executor, settings *config.Runner) error {
	var least executor.Job
	protected := true
	err := policy.Enforce(settings, policy.Request{Job: &least, Protected: &protected})
	if err == nil {
		limit(&least, &settings.Policy)
		err = executor.Check(level, &least)
	}
	if err != nil {
		return fmt.Errorf("[runners.policy] asks for what the isolation level cannot do: %w; choose another level, or leave that out", err)
	}
	return nil
}

// unprepared reports whether a job has failed because its machine was of no use: its environment could not be made, though not for want of an image, or a disk is full.
func unprepared(ended job.Ended) bool {
	return doubtful(ended) && (ended.Err.Code == event.CodeInternalError || ended.Err.Code == event.CodeDiskFull)
}

// doubtful reports whether a job has failed as others may, and not by its own fault: before its environment was there, or because a disk is full.
func doubtful(ended job.Ended) bool {
	return ended.Err != nil && ended.Err.Kind == event.ErrorSystem && (ended.Prepared.IsZero() || ended.Err.Code == event.CodeDiskFull)
}
