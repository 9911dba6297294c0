package scale

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// KeepUnknown is how long a volume is kept that a list has and no record had, at least: somebody has to see it, on holiday or not, and to find out why the record was lost.
const KeepUnknown = 30 * 24 * time.Hour

// unknownTime is how long such a volume is kept. Without volumes for good, it is not.
func (v *Volumes) unknownTime() time.Duration {
	if v.Idle == 0 {
		return 0
	}
	return max(KeepUnknown, v.Idle)
}

// SeenVolume is a volume in a list of a group.
type SeenVolume struct {
	ID, Request string
	Tenant      string // whose it is, by its label
	Zone        string
	Instance    string // that it is attached to; empty: to none
}

const strayVolume = "stray/"

func (v *volume) stray() bool { return strings.HasPrefix(v.Name, strayVolume) }

// VolumesListed says what volumes of this fleet a group has: all of them. One that the record does not have is its tenant's again, unless that has another one: then it is kept for
// unknownTime, for people to see to it.
func (f *volumes) VolumesListed(now time.Time, group, pool string, list []SeenVolume) {
	known := map[string]*volume{}
	for _, v := range f.all {
		if v.Group == group {
			known[v.Request] = v
			if v.ID != "" {
				known[v.ID] = v
			}
		}
	}
	seen := map[*volume]bool{}
	for _, s := range list {
		v := known[s.ID]
		if v == nil {
			v = known[s.Request]
		}
		if v == nil {
			v = f.find(now, group, pool, s)
		}
		seen[v] = true
		v.missing = time.Time{}
		if v.State == VolumeCreating {
			f.VolumeCreated(now, v.Name, v.Request, s.ID, s.Zone)
		}
		if v.State == VolumeFree && s.Instance != "" && v.wanted == nil { // by a call that came late
			v.Instance = s.Instance
			f.move(v, VolumeDetaching)
		}
		if v.State == VolumeUnknown && v.Instance != s.Instance {
			v.Instance = s.Instance
			f.changedVolume(v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.all)) {
		switch v := f.all[name]; {
		case v.Group != group || seen[v] || v.State != VolumeFree && v.State != VolumeUnknown && !v.resting:
		case v.missing.IsZero():
			v.missing = now
		case now.Sub(v.missing) >= max(f.config.MissingAfter, listsBehind): // somebody has deleted it, or it was never made
			f.dropVolume(v)
		}
	}
}

// find takes over a volume that no record had. Its epochs go on where no earlier one was: there are fewer than a second has passed for each.
func (f *volumes) find(now time.Time, group, pool string, s SeenVolume) *volume {
	v := &volume{VolumeRecord: VolumeRecord{
		Name: s.Tenant, Request: s.Request, ID: s.ID, Group: group, Pool: pool, Zone: s.Zone, Instance: s.Instance, Created: now, Used: now, Found: now,
		Epoch: uint64(max(0, now.Unix())),
	}}
	state := VolumeDetaching // from wherever it is; then it is as free as any
	if s.Tenant == "" || strings.HasPrefix(s.Tenant, strayVolume) || f.all[s.Tenant] != nil {
		v.Name, state = strayVolume+s.ID, VolumeUnknown
	}
	f.all[v.Name] = v
	f.move(v, state)
	return v
}
