package manager

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/disk"
	"github.com/rungci/rung/manager/traces"
)

// usesFolder is the folder of package usage, within Options.State.
const usesFolder = "uses"

// space is a manager with what it stores for later jobs.
type space struct{ *Manager }

// roomFor reports whether this machine has room for another job of an entry, after it has removed what must go for that. Machines of
// providers have disks of their own.
func (m space) roomFor(ctx context.Context, e *entry) bool {
	if e.supply != nil || m.limits() == (disk.Limits{}) {
		return true
	}
	l, _ := m.levels.open(context.WithoutCancel(ctx), e, e.isolation().Default) // it outlives the question; a job would be told what is wrong with it
	m.levels.leave(l)
	return m.disk.Room(ctx)
}

// limits are those of the configuration.
func (m space) limits() disk.Limits {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.config == nil {
		return disk.Limits{}
	}
	return disk.Limits(m.config.Disk)
}

// storers are what keeps things for later jobs on this machine.
func (m space) storers() []executor.Storer {
	roots, servers := m.cacheFolders()
	var all []executor.Storer
	for _, root := range roots {
		all = append(all, &disk.Caches{Root: root, Servers: servers, Busy: m.busy})
	}
	for _, l := range m.levels.all() {
		if !l.open.Load() {
			continue
		}
		if storer, ok := l.executor.(executor.Storer); ok {
			all = append(all, storer)
		}
	}
	return all
}

// cacheFolders are the folders on this machine that caches are in, and those of servers within each.
func (m space) cacheFolders() (roots, servers []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	roots = []string{m.ownCaches()}
	for _, e := range m.known { // an entry that is gone has left its caches
		r := e.settings()
		servers = append(servers, filepath.Dir(traces.ProjectFolder(r.URL, 0)))
		here := r.Executor != "custom" && e.isolation().Minimum.Rank() < executor.Container.Rank() // else it is a folder in the place of the job
		if r.CacheDir != "" && here && !slices.Contains(roots, r.CacheDir) {
			roots = append(roots, r.CacheDir)
		}
	}
	return roots, servers
}

// busy reports whether a job of a project runs, by the folder of the project.
func (m space) busy(project string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for r := range m.running {
		if filepath.ToSlash(r.project) == project {
			return true
		}
	}
	return false
}
