// Package worktree copies the files of a project to a folder of their own, as a person sees them, so that a job never touches the
// user's checkout.
//
// Of a Git work tree it copies what is tracked and what is not, and leaves out what Git ignores: nobody wants a job to depend on
// what lies around. Files that were deleted stay away. Submodules, and other repositories inside, are work trees of their own and
// copied as such. The copy is a Git work tree again: at the same commit, on the same branch, with the same index, so that `git
// status` says the same. It is a repository of its own that reads the original's objects (objects/info/alternates) and writes its
// own: whatever a job commits, checks out, packs or breaks there, the original has its branches, its index and its objects still.
// No link in .git is followed, and a repository elsewhere is read only if it names the work tree in turn (see gitfolder.go).
// Credentials do not travel: of the configuration only what is known to be harmless is kept (see config.go), and hooks never are.
//
//	from/.git (or what its .git file names)          to/.git
//	  HEAD, packed-refs, refs/, shallow ── copied ──>  the same
//	  config ───────────── what is harmless ────────>  config
//	  index ────────────── as it is ────────────────>  index
//	  objects/ <───────────── read from ─────────────  objects/info/alternates
//
// Where a folder is not a Git work tree, all of it is copied. Of the project's folder .rung, which holds our own state, only what Git tracks is,
// and what says where components come from, which the job's steps need.
//
// Files share their blocks with the originals where the file system can do that (reflinks), and are copied where it cannot. They
// are never hard links: a write to one must not reach the other.
//
// The program git lists the files, since nobody else knows all of its rules about what is ignored; everything else is done here,
// which takes a few milliseconds for a small project, where `git clone` takes dozens.
//
// The copy of a folder that is not a work tree has no .git. When it is below somebody's repository, git in it finds that one;
// who runs jobs there sets GIT_CEILING_DIRECTORIES.
package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
)

// Limits of what is copied.
const (
	MaxFiles   = 5_000_000 // in one work tree
	MaxListing = 1 << 30   // of their names, in bytes
	MaxNesting = 16        // work trees within each other
	MaxConfig  = 4 << 20   // of a repository's configuration, in bytes
	MaxIndex   = 2 << 30   // of a repository's index, in bytes
	MaxRefs    = 1 << 30   // of the file that holds its refs, in bytes
	MaxText    = 16 << 20  // of its other files, such as the list of excluded names, in bytes
)

const (
	stateFolder = ".rung"                       // holds our own state of a project
	sourcesFile = stateFolder + "/sources.toml" // is a setting of the project in it
)

// maxWorkers bounds how many files are copied at the same time by default. Disks do not get faster by more.
const maxWorkers = 8

// Options are how a work tree is copied. The zero value will do.
type Options struct {
	// Env is the environment of git, NAME=value each; nil is that of this program. What is ignored can depend on the user's own
	// settings, which git finds by HOME. Variables that name another repository (GIT_DIR and its like) do not reach it.
	Env []string
	// Excludes is a file of patterns that Git ignores too, in the place of the user's own (core.excludesFile); "" leaves that as it is.
	Excludes string
	// Ignored copies what Git ignores, too. Then the program git is not needed.
	Ignored bool
	// NoSubmodules leaves the folders of submodules empty, as a clone does.
	NoSubmodules bool
	// Workers is how many files are copied at the same time; 0 is the number of processors, and at most 8.
	Workers int
}

// Summary is what was copied.
type Summary struct {
	Repository bool     // the copy is a Git work tree
	Commit     string   // what is checked out; "" in a repository without commits
	Branch     string   // "" when HEAD is detached
	Files      int      // regular files
	Links      int      // symbolic links
	Bytes      int64    // of the regular files
	Shared     int      // of Files, those that share their blocks with the original
	Submodules []string // repositories inside, copied as such, by their path
	Skipped    []string // what is neither a file, a link nor a folder, by its path
}

// Copy copies the project in the folder from to the folder to, which must not be there or be empty. When it fails, what is in the
// folder to is of no use, and its caller's to remove.
func Copy(ctx context.Context, from, to string, o Options) (*Summary, error) {
	from, to, err := folders(from, to)
	if err != nil {
		return nil, fmt.Errorf("copying the project: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &copying{ctx: ctx, fail: cancel, to: to, env: gitEnv(o.Env), excludes: o.Excludes, ignored: o.Ignored, noSubmodules: o.NoSubmodules, summary: &Summary{}}
	workers := o.Workers
	if workers <= 0 {
		workers = min(runtime.GOMAXPROCS(0), maxWorkers)
	}
	stop := c.startWorkers(workers)
	head, err := c.tree(from, to, "", 0)
	stop()
	if cause := context.Cause(ctx); cause != nil {
		err = cause // what failed first, wherever it was
	}
	if err != nil {
		return nil, fmt.Errorf("copying the project: %w", err)
	}
	if head != nil {
		c.summary.Repository, c.summary.Commit, c.summary.Branch = true, head.commit, head.branch
	}
	sort.Strings(c.summary.Submodules)
	sort.Strings(c.summary.Skipped)
	return c.summary, nil
}

// folders returns both folders as absolute paths, and makes the second.
func folders(from, to string) (realFrom, realTo string, err error) {
	if realFrom, err = filepath.Abs(from); err != nil {
		return "", "", err
	}
	if realFrom, err = filepath.EvalSymlinks(realFrom); err != nil {
		return "", "", err
	}
	if info, err := os.Stat(realFrom); err != nil {
		return "", "", err
	} else if !info.IsDir() {
		return "", "", fmt.Errorf("%s is not a folder", from)
	}
	entries, err := os.ReadDir(to)
	switch {
	case err == nil && len(entries) > 0:
		return "", "", fmt.Errorf("%s is not empty", to)
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(to, 0o777); err != nil {
			return "", "", err
		}
	case err != nil:
		return "", "", err
	}
	if realTo, err = filepath.Abs(to); err != nil {
		return "", "", err
	}
	if realTo, err = filepath.EvalSymlinks(realTo); err != nil {
		return "", "", err
	}
	if realTo == realFrom {
		return "", "", fmt.Errorf("%s cannot be copied to itself", from)
	}
	return realFrom, realTo, nil
}

// copying is one call of Copy.
type copying struct {
	ctx  context.Context
	fail context.CancelCauseFunc // stops everything, with the first error
	to   string                  // the whole copy's folder, which is not part of what is copied
	env  []string                // of git

	excludes     string // a file of patterns that git is given; "" is none
	ignored      bool
	noSubmodules bool

	work        chan batch
	cannotShare atomic.Bool // the file systems have no reflinks

	mu      sync.Mutex
	summary *Summary
}

// note changes the summary.
func (c *copying) note(change func(*Summary)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.summary)
}

// tree copies one work tree; rel is its path in the project, "" for the project itself. It returns where its HEAD is, nil when the
// copy is not a repository.
func (c *copying) tree(from, to, rel string, depth int) (*head, error) {
	if depth > MaxNesting {
		return nil, fmt.Errorf("%s: more than %d repositories within each other", from, MaxNesting)
	}
	repo, err := locate(from)
	if err != nil {
		return nil, err
	}
	if repo == nil {
		return nil, c.folder(from, to, rel, depth)
	}
	if err := repo.check(); err != nil {
		return nil, err
	}
	if !repo.top {
		// A folder inside a work tree: it is seen as Git sees it, but its copy cannot be at a commit.
		names, err := c.list(from, rel)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, c.folder(from, to, rel, depth) // the repository above ignores it: it is none of its business
		}
		return nil, c.files(from, to, rel, depth, names)
	}
	type written struct {
		head *head
		err  error
	}
	done := make(chan written, 1)
	go func() {
		h, err := repo.write(filepath.Join(to, ".git"), from)
		done <- written{h, err}
	}()
	names, listErr := c.list(from, rel)
	w := <-done
	if err := errors.Join(listErr, w.err); err != nil {
		return nil, err
	}
	if err := c.files(from, to, rel, depth, names); err != nil {
		return nil, err
	}
	return w.head, repo.copyIndex(filepath.Join(to, ".git"))
}
