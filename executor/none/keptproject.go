package none

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/usage"
	"github.com/rungci/rung/internal/discard"
)

// A project that is kept between jobs (Job.KeepProject) is a folder beside those of jobs, which stays when they go:
//
//	ROOT/NAME.0/project
//	ROOT/NAME.0.busy     exists while a job has it
//
// They are on record in Setup.Uses, so that they can be removed for want of space.

// busySuffix ends the name of a folder that exists while a job has the kept project beside it.
const busySuffix = ".busy"

// maxKept bounds how many jobs may have kept folders of the same name at once: each has one of its own.
const maxKept = 1000

// claimKept finds a project folder of the name that no other job has, or makes one.
func (v *environment) claimKept(ctx context.Context, kept, project string) error {
	path, files := v.executor.host.Path(), v.executor.host.Files()
	for n := range maxKept {
		folder := fmt.Sprintf("%s.%d", kept, n)
		if err := v.take(ctx, folder); err != nil {
			if _, taken := files.Stat(ctx, folder+busySuffix); taken == nil && v.dirs.Busy == "" {
				continue
			}
			return err
		}
		v.dirs.Project = path.Join(folder, project)
		if v.executor.here() { // what an earlier job has mounted there is not the project's, and is not to be cleaned
			if err := discard.Unmount(folder); err != nil {
				return err
			}
		}
		if err := v.discardForeign(ctx, folder, v.dirs.Project); err != nil {
			return err
		}
		if err := files.MkdirAll(ctx, folder, 0o700); err != nil { // as the folder of a job
			return err
		}
		return files.MkdirAll(ctx, v.dirs.Project, 0o755)
	}
	return fmt.Errorf("%d jobs already use the kept project folder %s", maxKept, kept)
}

// discardForeign removes what an earlier job has put in the place of a folder: a link, which leads to where files would be removed and
// written, or one that cannot be entered.
func (v *environment) discardForeign(ctx context.Context, dirs ...string) error {
	const enter = 0o700
	files := v.executor.host.Files()
	for _, dir := range dirs {
		info, err := files.Stat(ctx, dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode.IsDir() && (info.Mode.Perm()&enter == enter || v.executor.host.Platform().OS == "windows") {
			continue
		}
		if err := files.RemoveAll(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// take takes a kept folder, unless another job has it. It is not removed from then on.
func (v *environment) take(ctx context.Context, folder string) error {
	uses := v.executor.setup.Uses
	defer uses.Hold()()
	v.dirs.Busy = folder + busySuffix
	if err := v.claim(ctx, &v.dirs.Busy); err != nil {
		return err
	}
	if k := v.executor.keptKey(folder); !uses.Has(k) {
		if err := uses.Add(k, v.executor.host.Name()); err != nil {
			return err
		}
	}
	v.uses()
	return nil
}

// uses says that the job has its kept project, if it has one.
func (v *environment) uses() {
	if v.dirs.Busy != "" {
		v.marks.Add(v.executor.setup.Uses.Use(v.executor.keptKey(strings.TrimSuffix(v.dirs.Busy, busySuffix))))
	}
}

// here reports whether the host is this machine, whoever jobs run as.
func (e *Executor) here() bool {
	_, other := local.UserOf(e.host.Name())
	return other || e.host.Name() == local.Name
}

// keptKey is what a kept folder is on record as. The record names the host, too: who it belongs to.
func (e *Executor) keptKey(folder string) usage.Key {
	return usage.Key{Place: e.place(), Kind: executor.StoredProject, ID: folder}
}

// place is the machine that kept folders are on, whoever has them there.
func (e *Executor) place() string {
	if e.here() {
		return local.Name
	}
	return e.host.Name()
}

// Stored lists the kept projects on the machine, on this one those of all users. It implements executor.Storer.
func (e *Executor) Stored(ctx context.Context) (*executor.Stock, error) {
	stock := &executor.Stock{}
	if e.host.Name() != e.place() { // the jobs of another user, which the level for all has, too
		return stock, nil
	}
	if !e.here() {
		if err := e.begin(ctx); err != nil {
			return nil, err
		}
		stock.On, stock.Folder = e.host, e.temp
	}
	files, path, uses := e.host.Files(), e.host.Path(), e.setup.Uses
	known, err := uses.List(e.place())
	for _, t := range known {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		inUse := uses.InUse(t.Key) || e.exists(ctx, t.ID+busySuffix)
		if !inUse && !e.exists(ctx, t.ID) {
			if err := uses.Forget(t.Key); err != nil {
				return nil, err
			}
			continue
		}
		var unmeasured error
		size := uses.Size(t, func() (bytes int64) {
			if bytes, unmeasured = files.Taken(ctx, t.ID); unmeasured != nil {
				return -1
			}
			return bytes
		})
		if unmeasured != nil {
			return nil, fmt.Errorf("measuring the kept project %s: %w", t.ID, unmeasured)
		}
		stock.Things = append(stock.Things, executor.Stored{
			Kind: t.Kind, Place: t.Place, ID: t.ID, Name: t.ID, Folder: path.Dir(t.ID), Used: t.Used, InUse: inUse, Size: size,
		})
	}
	return stock, err
}

// exists reports whether there is something on the machine; also if that cannot be known.
func (e *Executor) exists(ctx context.Context, path string) bool {
	_, err := e.host.Files().Stat(ctx, path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Discard removes a kept project. It implements executor.Storer. For as long as that takes, the folder is in use.
func (e *Executor) Discard(ctx context.Context, what executor.Stored) error {
	k := e.keptKey(what.ID)
	var there *Executor // as whoever it belongs to
	busy := what.ID + busySuffix
	err := e.setup.Uses.Remove(k, func(t usage.Thing) (err error) {
		if len(t.Names) == 0 {
			return fmt.Errorf("nobody knows whose the kept project %s is; remove it by hand", t.ID)
		}
		if there, err = e.on(t.Names[len(t.Names)-1]); err != nil || there == nil {
			return errors.Join(err, fmt.Errorf("the kept project %s is of another machine, %s", t.ID, t.Names[len(t.Names)-1]))
		}
		if err := there.begin(ctx); err != nil {
			return err
		}
		if e.exists(ctx, busy) {
			return usage.ErrInUse
		}
		return there.claim(ctx, busy, there.entry(busy, nil))
	})
	if err != nil || there == nil {
		return err
	}
	err = there.host.Files().RemoveAll(ctx, what.ID)
	if err != nil {
		err = errors.Join(err, e.setup.Uses.Add(k, there.host.Name())) // what is left of it
	}
	if wrong := there.host.Files().RemoveAll(ctx, busy); wrong != nil {
		return errors.Join(err, wrong)
	}
	there.claims.end(busy)
	return errors.Join(err, there.book.Done(there.entry(busy, nil)))
}
