package manager

import (
	"log/slog"
	"path/filepath"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/cachestore"
	"github.com/rungci/rung/manager/cachestore/kinds"
	"github.com/rungci/rung/manager/config"
)

// caches is the folder with the caches of a job's project on this machine.
func (r *run) caches(settings *config.Runner) string {
	m := r.entry.manager
	root := settings.CacheDir
	if root == "" || r.tried() || settings.Executor == "custom" || r.reserved != nil || r.rank >= executor.Container.Rank() { // of a container, it is a folder in there
		root = m.ownCaches()
	}
	return filepath.Join(root, r.project)
}

// ownCaches is where caches are unless an entry says otherwise.
func (m *Manager) ownCaches() string { return filepath.Join(m.o.State, "caches") }

// cacheStore are the caches of a job's project in the store of its entry; nil if they are in the folder, as those of jobs of Try are.
func cacheStore(r *run, settings *config.Runner) *cachestore.Project {
	signer := r.entry.signer()
	if signer == nil || r.tried() {
		return nil
	}
	return cachestore.Of(signer, settings.Cache, settings.CacheNamespace(), r.from.Info.ProjectID)
}

// signer is that of the entry's store of caches; nil if it has none.
func (e *entry) signer() cachestore.Signer {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.caches
}

// openCaches opens the store of the caches of a configuration. If it cannot be used, jobs run without caches.
func openCaches(c config.Cache, log *slog.Logger) cachestore.Signer {
	signer, err := kinds.Open(c)
	if err != nil {
		log.Error("the store of the caches cannot be used; jobs run without caches", "error", err)
		return cachestore.Broken{Err: err}
	}
	return signer
}
