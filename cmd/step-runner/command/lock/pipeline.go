package lock

import (
	"context"
	"slices"

	"github.com/rungci/rung/cmd/step-runner/command/project"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/source/lock"
	"github.com/rungci/rung/steps/source/locker"
)

// project are the flags that open a definition, with what is locked so far in the place of the lock file: that is about to be written.
func (o *lockOptions) project(l *locker.Locker) *project.Flags {
	out := o.event
	out.Lock = func(string) (*lock.File, error) { return &l.New, nil }
	return &out
}

// lockPipeline locks what the jobs of a .gitlab-ci.yml name: images, services, and what their steps use.
func (a *lockCommands) lockPipeline(ctx context.Context, o *lockOptions, l *locker.Locker, file string) error {
	p, err := o.project(l).Open(ctx, a.Program, file)
	if err != nil {
		return err
	}
	used := p.Used(ctx)
	l.Warnings = append(l.Warnings, used.Unknown...)
	for _, compiled := range used.Plans {
		if err := l.Definition(ctx, compiled.Plan, p.Text, p.Repository.Root); err != nil {
			return err
		}
	}
	return lockImages(ctx, l, used.Images)
}

// lockImages locks the images whose names are known, and warns of the others.
func lockImages(ctx context.Context, l *locker.Locker, images []local.Image) error {
	for _, image := range images {
		if !image.Varies {
			if err := l.Image(ctx, image.Name); err != nil {
				return err
			}
			continue
		}
		warning := image.At
		warning.Message, warning.Hint = locker.DynamicImage, locker.DynamicHint
		if !slices.Contains(l.Warnings, warning) { // other jobs have it too
			l.Warnings = append(l.Warnings, warning)
		}
	}
	return nil
}
