package container

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/executor/usage"
	"github.com/rungci/rung/steps/containers"
)

// What is kept in the engine for later jobs is on record in Setup.Uses: images that were not there before they were pulled, and volumes that outlive their
// job. An engine does not say who has pulled an image. One that gets a name from somebody else later is theirs, and comes off the record.

// key is that of a thing in the engine.
func (e *Executor) key(kind, id string) usage.Key {
	return usage.Key{Place: e.engine.place(), Kind: kind, ID: id}
}

// found is inspect, and keeps what it finds from being removed as long as the job has its environment.
func (p *puller) found(ctx context.Context, name string, on *platform) (*image, error) {
	defer p.setup.Uses.Hold()()
	found, err := p.inspect(ctx, name, on)
	if found != nil {
		p.marks.Add(p.setup.Uses.Use(p.key(executor.StoredImage, found.id)))
	}
	return found, err
}

// images are those that the engine has, with their names.
type images struct {
	ids   []string
	names []string
}

// present are the images that the engine has before one is pulled; nil where nobody wants to know. The one that has the name already, which a registry
// may confirm, is the job's from now on.
func (p *puller) present(ctx context.Context, name string) *images {
	if p.setup.Uses == nil {
		return nil
	}
	_, err := p.found(ctx, name, nil)
	var all []engine.ListedImage
	if err == nil {
		all, err = p.client.Images.List(ctx)
	}
	if err != nil {
		return nil // what is pulled now is somebody else's
	}
	have := &images{}
	for _, i := range all {
		have.ids, have.names = append(have.ids, i.ID), slices.Concat(have.names, i.RepoTags, i.RepoDigests)
	}
	return have
}

// pulled puts an image on record that was just pulled by a name, unless it was there before. One that was and is on record gets the name, if that is new.
func (p *puller) pulled(ctx context.Context, name string, before *images) {
	if before == nil {
		return
	}
	defer p.setup.Uses.Hold()()
	found, err := p.client.Images.Inspect(ctx, name)
	if err != nil {
		return
	}
	k := p.key(executor.StoredImage, found.ID)
	had := slices.Contains(before.ids, found.ID)
	if had && (!p.setup.Uses.Has(k) || anyIs(before.names, name)) {
		return
	}
	_ = p.setup.Uses.Add(k, name) // an image that is not on record stays
	p.marks.Add(p.setup.Uses.Use(k))
}

// anyIs reports whether one of the names that an engine has for images is the name.
func anyIs(all []string, name string) bool {
	return slices.ContainsFunc(all, func(one string) bool { return sameName(one, name) })
}

// owned reports whether all names of an image in the engine are those on record.
func owned(t usage.Thing, tags, digests []string) bool {
	for _, tag := range tags {
		if !isNone(tag) && !slices.ContainsFunc(t.Names, func(own string) bool { return sameName(tag, own) }) {
			return false
		}
	}
	for _, digest := range digests {
		if !isNone(digest) && !slices.ContainsFunc(t.Names, func(own string) bool { return sameRepository(digest, own) }) {
			return false
		}
	}
	return true
}

// isNone reports whether a name is what older engines call images without one.
func isNone(name string) bool { return strings.HasPrefix(name, "<none>") }

// sameRepository reports whether two names are of the same repository of a registry.
func sameRepository(a, b string) bool {
	one, other := containers.ParseName(a), containers.ParseName(b)
	return one.Registry == other.Registry && one.Repository == other.Repository
}

// sameName reports whether the engine's name of an image is the one that a job has for it.
func sameName(have, asked string) bool {
	one, other := containers.ParseName(have), containers.ParseName(asked)
	if other.Digest != "" {
		return sameRepository(have, asked) && one.Digest == other.Digest
	}
	return sameRepository(have, asked) && one.Digest == "" && one.Tag == other.Tag
}

// Stored lists the images and volumes on record that the engine still has. It implements executor.Storer. Of an engine that is reached over a network, whose
// machine nobody knows, it lists none.
func (e *Executor) Stored(ctx context.Context) (*executor.Stock, error) {
	stock := &executor.Stock{On: e.engine.on}
	if !strings.HasPrefix(e.engine.Host, "unix:") {
		return stock, nil
	}
	info, err := e.client.Info(ctx)
	if err != nil {
		return nil, e.unreachable(ctx, err)
	}
	stock.Folder = info.DockerRootDir
	if stock.Things, err = e.folders(ctx); err != nil {
		return nil, err
	}
	known, err := e.setup.Uses.List(e.engine.place())
	if err != nil || len(known) == 0 {
		return stock, err
	}
	has, err := e.client.Usage(ctx)
	if err != nil {
		return nil, e.unreachable(ctx, err)
	}
	for _, t := range known {
		it := executor.Stored{Kind: t.Kind, Place: t.Place, ID: t.ID, Name: t.ID, Used: t.Used, InUse: e.setup.Uses.InUse(t.Key)}
		if len(t.Names) > 0 {
			it.Name = t.Names[0]
		}
		if !measure(&it, t, has) {
			if err := e.setup.Uses.Forget(t.Key); err != nil {
				return nil, err
			}
			continue
		}
		stock.Things = append(stock.Things, it)
	}
	return stock, nil
}

// measure completes what is known of a thing by what the engine has. It returns false for one that is not there, or not ours any more.
func measure(it *executor.Stored, t usage.Thing, has *engine.Usage) bool {
	if t.Kind == executor.StoredImage {
		at := slices.IndexFunc(has.Images, func(i engine.ListedImage) bool { return i.ID == t.ID })
		if at < 0 || !owned(t, has.Images[at].RepoTags, has.Images[at].RepoDigests) {
			return false
		}
		it.Size, it.InUse = has.Images[at].Size, it.InUse || has.Images[at].Containers > 0
		return true
	}
	for _, v := range has.Volumes {
		if v.Name == t.ID {
			it.Size, it.InUse = max(0, v.UsageData.Size), it.InUse || v.UsageData.RefCount > 0
			return true
		}
	}
	return false
}

// keptHere records a volume that outlives the job, while make makes it or finds that it is there. Others than the engine's own drivers make are elsewhere.
func (v operator) keptHere(name string, by engine.VolumeDriver, make func() error) error {
	uses := v.executor.setup.Uses
	defer uses.Hold()()
	err := make()
	if err != nil || by.Driver != "" {
		return err
	}
	k := v.executor.key(executor.StoredVolume, name)
	if err := uses.Add(k); err != nil {
		return err
	}
	v.marks.Add(uses.Use(k))
	return nil
}

// Discard removes an image or a volume that is on record. It implements executor.Storer.
func (e *Executor) Discard(ctx context.Context, what executor.Stored) error {
	return e.setup.Uses.Remove(usage.Key{Place: what.Place, Kind: what.Kind, ID: what.ID}, func(t usage.Thing) error {
		var err error
		switch {
		case t.Kind == executor.StoredImage:
			err = e.discardImage(ctx, t)
		case t.Place == foldersPlace:
			err = e.discardFolder(ctx, t.ID)
		default:
			err = e.client.Volumes.Remove(ctx, t.ID)
		}
		if errors.Is(err, usage.ErrInUse) {
			return err
		}
		switch engine.Status(err) {
		case http.StatusNotFound:
			return nil
		case http.StatusConflict:
			return usage.ErrInUse
		}
		return e.failed(ctx, "removing the "+what.Kind+" "+what.Name, err)
	})
}

// discardImage removes the names of an image that are on record, and with the last one the image. By its ID an engine would remove an image with
// any one name.
func (e *Executor) discardImage(ctx context.Context, t usage.Thing) error {
	found, err := e.client.Images.Inspect(ctx, t.ID)
	if err != nil {
		return err
	}
	if !owned(t, found.RepoTags, found.RepoDigests) {
		return nil // somebody else's by now
	}
	if len(found.RepoTags) == 0 {
		return e.client.Images.Remove(ctx, t.ID)
	}
	for _, name := range found.RepoTags {
		if err := e.client.Images.Remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
