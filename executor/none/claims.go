package none

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
)

// claims are the folders that environments of this process have. Their names come again: that of a job that GitLab hands out twice, and of a kept
// project. A process that was killed between the removal of a folder and the line of its ledger about it has left an entry of that name, and a sweep
// would take the folder from the job that has it now, whose processes it would kill.
type claims struct {
	mu   sync.Mutex
	dirs map[string]int // by how many: the next one may have it before the one before is through
}

func (c *claims) add(dirs ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dirs == nil {
		c.dirs = map[string]int{}
	}
	for _, dir := range dirs {
		c.dirs[dir]++
	}
}

func (c *claims) end(dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dirs[dir] <= 1 {
		delete(c.dirs, dir)
		return
	}
	c.dirs[dir]--
}

// unless removes a folder that a process before has left, but not one that a job has. Nobody claims a folder meanwhile.
func (c *claims) unless(dir string, remove func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dirs[dir] > 0 {
		return nil
	}
	return remove()
}

// claim makes a folder that must not exist, and whose entry is in the ledger before it does. claims.end is for when it is removed.
func (e *Executor) claim(ctx context.Context, dir, entry string) error {
	info, err := e.host.Files().Stat(ctx, dir)
	switch {
	case err == nil:
		return fmt.Errorf("%s already exists; remove it if nobody needs it (it was last changed at %s)", dir, info.ModTime.Format("2006-01-02 15:04:05"))
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := e.book.Add(entry); err != nil {
		return err
	}
	e.claims.add(dir)
	if err := e.host.Files().Mkdir(ctx, dir, 0o700); err != nil {
		e.claims.end(dir)
		return errors.Join(err, e.book.Done(entry))
	}
	return nil
}
