package manager

import (
	"context"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/disk"
	"github.com/rungci/rung/manager/traces"
)

// usesFolder is the folder of package usage, within Options.State.
const usesFolder = "uses"

// space is a manager with what it stores for later jobs.
type space struct{ *Manager }

// placeOf names the machine that has what jobs of an entry leave for later ones; "" is this one. Machines of providers are not known here.
func placeOf(r *config.Runner) string {
	switch {
	case r.Executor == "ssh" && r.SSH != nil:
		return "ssh://" + r.SSH.User + "@" + net.JoinHostPort(r.SSH.Host, r.SSH.Port)
	case r.Docker != nil && strings.HasPrefix(r.Docker.Host, "ssh://"):
		return r.Docker.Host
	}
	return ""
}

// disks are those of other machines, by where they are. The zero value has none.
type disks struct {
	mu  sync.Mutex
	all map[string]*disk.Disk
}

// diskOf is the disk of a place.
func (m space) diskOf(place string) *disk.Disk {
	if place == "" {
		return m.disk
	}
	m.disks.mu.Lock()
	defer m.disks.mu.Unlock()
	d := m.disks.all[place]
	if d == nil {
		d = disk.New(disk.Options{
			Limits: m.limits, Log: m.o.Log.With("host", place),
			Storers: func() []executor.Storer { return m.levelsOn(place) },
		})
		if m.disks.all == nil {
			m.disks.all = map[string]*disk.Disk{}
		}
		m.disks.all[place] = d
	}
	return d
}

// elsewhere are the disks of other machines that entries use, as they were looked at last, by the machines.
func (m space) elsewhere(entries []*entry) map[string]*disk.Status {
	all := map[string]*disk.Status{}
	for _, e := range entries {
		if e.supply != nil {
			maps.Copy(all, e.machines.Disks())
		} else if place := placeOf(e.settings()); place != "" {
			if s := m.diskOf(place).Status(); s != nil && !s.Looked.IsZero() {
				all[place] = s
			}
		}
	}
	return all
}

// changed says that a job has begun or ended.
func (m space) changed() {
	m.disk.Changed()
	m.disks.mu.Lock()
	defer m.disks.mu.Unlock()
	for _, d := range m.disks.all {
		d.Changed()
	}
}

// roomFor reports whether the machine of an entry has room for another job of it, after it has removed what must go for that. Machines of
// providers are looked at when a job gets one.
func (m space) roomFor(ctx context.Context, e *entry) bool {
	if e.supply != nil || m.limits() == (disk.Limits{}) {
		return true
	}
	l, _ := m.levels.open(context.WithoutCancel(ctx), e, e.isolation().Default) // it outlives the question; a job would be told what is wrong with it
	m.levels.leave(l)
	place := placeOf(e.settings())
	d := m.diskOf(place)
	if d.Room(ctx) {
		return true
	}
	if s := d.Status(); place != "" && s != nil { // of this machine it is said for all entries
		e.mu.Lock()
		e.unable = "on " + place + " " + s.Waiting
		e.mu.Unlock()
		e.fitness.doubt.Store(true) // when there is room, it is not unable any more
	}
	return false
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
	return append(all, m.levelsOn("")...)
}

// levelsOn are the levels on a machine that keep things for later jobs.
func (m space) levelsOn(place string) (all []executor.Storer) {
	for _, l := range m.levels.all() {
		if !l.open.Load() || l.place != place {
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
