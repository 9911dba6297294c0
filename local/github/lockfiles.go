package github

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/actions/lockfile"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source/lock"
)

// relock is what to do when GitHub's lock file lacks something.
const relock = "step-runner lock --github, or gh actions-lock, adds it"

// readLocks reads both lock files of the project: ours, and GitHub's.
func (p *Project) readLocks(ctx context.Context) (err error) {
	if p.options.Lock != nil {
		if p.own, err = p.options.Lock(p.Repository.Root); err != nil {
			return err
		}
	}
	if p.options.Relock {
		p.lock = p.own
		return nil
	}
	text, err := readDefinition(p.Repository.Root, filepath.Join(p.Repository.Root, filepath.FromSlash(lockfile.Path)), lockfile.Path)
	if err == nil {
		p.locks, err = lockfile.Parse(lockfile.Path, text)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if p.locks != nil && p.locks.Locks(p.File) {
		p.Notes = append(p.Notes, "actions are pinned to the commits in "+lockfile.Path+"")
	}
	p.lock, err = p.lockOf(ctx, nil, p.File)
	return err
}

// lockOf is what a workflow's jobs are locked to: by our own lock file, and by GitHub's of the repository that the workflow is in, as on GitHub.
func (p *Project) lockOf(ctx context.Context, from *definition.Source, workflow string) (*lock.File, error) {
	locks, name := p.locks, lockfile.Path
	if from != nil && p.options.Load != nil && !p.options.Relock {
		name = from.Repository + "/" + lockfile.Path + "@" + from.Ref
		text, err := p.options.Load(ctx, p.Repository, from.Repository, from.Ref, lockfile.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			locks = nil
		case err != nil:
			return nil, fmt.Errorf("reading the lock file of a called workflow: %w", err)
		default:
			if locks, err = lockfile.Parse(name, text); err != nil {
				return nil, err
			}
		}
	}
	both, err := lock.Join(p.own, "the lock file of step-runner", closedBy(locks, name, workflow, from), name)
	if err != nil {
		return nil, diag.List{{Span: diag.Span{File: name}, Message: err.Error()}}
	}
	return both, nil
}

// closedBy is what GitHub's lock file says of one workflow, as a lock file of ours; nil where it does not lock it. What it lacks of GitHub's
// repositories is refused then, but for the one that the workflow is from. Name is what messages call the file.
func closedBy(f *lockfile.File, name, workflow string, from *definition.Source) *lock.File {
	if f == nil || !f.Locks(workflow) {
		return nil
	}
	closed := lock.Closed{URL: plan.GitHubURL, By: name + " locks " + workflow, Hint: relock}
	if from != nil {
		closed.Except = plan.GitHubURL + from.Repository
	}
	return &lock.File{Version: lock.Version, Packages: Locked(f, workflow), Closed: []lock.Closed{closed}}
}

// Locked is what GitHub's lock file says of one workflow, as our own lock file says it: without digests.
func Locked(f *lockfile.File, workflow string) (all []lock.Package) {
	for _, key := range f.Workflows[workflow] {
		repository, rev, _ := strings.Cut(key, "@")
		all = append(all, lock.Package{Kind: plan.RefGit, URL: plan.GitHubURL + repository, Rev: rev, Pin: f.Dependencies[key].Commit})
	}
	return all
}

// pinned is the commit of a repository of GitHub at a ref by a lock, "" where it says nothing. It is an error where it would have to.
func pinned(l *lock.File, repository, ref string) (string, error) {
	url := plan.GitHubURL + repository
	if p := l.Find(plan.RefGit, url, ref); p != nil {
		return p.Pin, nil
	}
	if closed := l.Closes(url); closed != nil {
		return "", fmt.Errorf("%s@%s is not locked, and %s: %s", repository, ref, closed.By, closed.Hint)
	}
	return "", nil
}

// pin is the commit of an action. What runs keeps its name, and finds the commit in the lock that it gets; what is only shown has none.
func (a *attempt) pin(repository, ref string) (string, error) {
	commit, err := pinned(a.leg.node.scope.lock, repository, ref)
	if !a.planned {
		commit = ""
	}
	return commit, err
}
