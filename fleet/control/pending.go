package control

import (
	"maps"
	"slices"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/store"
)

// pending is what is to be committed. The zero value is nothing.
type pending struct {
	name     string
	created  uint64
	machines map[string]*scale.InstanceRecord // nil: it is gone
	jobs     map[string]*store.Job            // nil: it is over
	volumes  map[string]*scale.VolumeRecord   // nil: it is gone
}

func set[T any](m *map[string]*T, key string, value *T) {
	if *m == nil {
		*m = map[string]*T{}
	}
	(*m)[key] = value
}

func (p *pending) keep(rec scale.InstanceRecord)     { set(&p.machines, rec.Request, &rec) }
func (p *pending) lose(request string)               { set(&p.machines, request, nil) }
func (p *pending) keepVolume(rec scale.VolumeRecord) { set(&p.volumes, rec.Name, &rec) }
func (p *pending) loseVolume(name string)            { set(&p.volumes, name, nil) }
func (p *pending) placed(job store.Job)              { set(&p.jobs, job.Key, &job) }
func (p *pending) over(key string)                   { set(&p.jobs, key, nil) }

// take returns all as one change, and leaves nothing.
func (p *pending) take() store.Change {
	c := store.Change{Name: p.name, Created: p.created}
	for _, request := range slices.Sorted(maps.Keys(p.machines)) {
		if rec := p.machines[request]; rec != nil {
			c.Machines = append(c.Machines, *rec)
		} else {
			c.Gone = append(c.Gone, request)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.jobs)) {
		if job := p.jobs[key]; job != nil {
			c.Jobs = append(c.Jobs, *job)
		} else {
			c.Over = append(c.Over, key)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.volumes)) {
		if rec := p.volumes[name]; rec != nil {
			c.Volumes = append(c.Volumes, *rec)
		} else {
			c.Lost = append(c.Lost, name)
		}
	}
	*p = pending{}
	return c
}

// back takes a change back that could not be committed. What came later stays.
func (p *pending) back(c store.Change) {
	old := pending{name: c.Name, created: max(c.Created, p.created)}
	for _, rec := range c.Machines {
		old.keep(rec)
	}
	for _, request := range c.Gone {
		old.lose(request)
	}
	for _, job := range c.Jobs {
		old.placed(job)
	}
	for _, key := range c.Over {
		old.over(key)
	}
	for _, rec := range c.Volumes {
		old.keepVolume(rec)
	}
	for _, name := range c.Lost {
		old.loseVolume(name)
	}
	for name, rec := range p.volumes {
		set(&old.volumes, name, rec)
	}
	for request, rec := range p.machines {
		set(&old.machines, request, rec)
	}
	for key, job := range p.jobs {
		set(&old.jobs, key, job)
	}
	*p = old
}

func empty(c store.Change) bool {
	return c.Name == "" && len(c.Machines)+len(c.Gone)+len(c.Jobs)+len(c.Over)+len(c.Volumes)+len(c.Lost) == 0
}
