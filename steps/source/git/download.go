package git

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source"
)

// download fetches a commit, without its history, into a mirror.
func (f *Fetcher) download(ctx context.Context, at *source.Location, a *address, m *mirror, pin plumbing.Hash) error {
	return f.retry(ctx, func() error {
		refused, err := f.downloadOne(ctx, at, a, m, pin)
		if !refused {
			return err
		}
		return f.downloadAll(ctx, at, a, m, pin)
	})
}

// downloadOne asks for the commit alone. Refused is true where the server gives out only what it offers, and does not offer
// the commit: it may be in the history of something that is offered.
func (f *Fetcher) downloadOne(ctx context.Context, at *source.Location, a *address, m *mirror, pin plumbing.Hash) (refused bool, err error) {
	r, err := f.connect(ctx, at, a)
	if err != nil {
		return false, err
	}
	defer r.close()
	offered, err := r.refs(ctx)
	if errors.Is(err, errNoCommits) {
		return false, &noCommitError{pin, "the repository is empty"}
	}
	if err != nil {
		return false, err
	}
	want, isOffered := offered.offers(pin)
	any := offered.caps["allow-reachable-sha1-in-want"]
	if !isOffered {
		if want = pin; !any && !offered.caps["allow-tip-sha1-in-want"] {
			return true, nil
		}
	}
	o := m.order(want)
	err = f.receive(ctx, at, r, offered, o, m)
	var said *remoteError
	if !isOffered && errors.As(err, &said) && said.notOurs() {
		if any {
			return false, &noCommitError{pin, "the repository has no such commit"}
		}
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, f.complete(m, pin, o.shallow)
}

// downloadAll fetches everything, because there is no other way to get at a commit in the middle of a history.
func (f *Fetcher) downloadAll(ctx context.Context, at *source.Location, a *address, m *mirror, pin plumbing.Hash) error {
	r, err := f.connect(ctx, at, a)
	if err != nil {
		return err
	}
	defer r.close()
	offered, err := r.refs(ctx)
	if err != nil {
		return err
	}
	if err := f.receive(ctx, at, r, offered, &order{wants: offered.all()}, m); err != nil {
		return err
	}
	have, err := m.objects()
	if err != nil {
		return err
	}
	defer have.close()
	if have.has(pin) != nil {
		return &noCommitError{pin, "the repository has no such commit in the history of its branches and tags"}
	}
	return f.complete(m, pin, nil)
}

// complete notes that a commit was received, if it was.
func (f *Fetcher) complete(m *mirror, pin plumbing.Hash, shallow []plumbing.Hash) error {
	have, err := m.objects()
	if err != nil {
		return err
	}
	defer have.close()
	root, err := have.root(pin)
	if err != nil {
		return err
	}
	if err := have.has(root); err != nil {
		return err
	}
	return m.add(pin, shallow)
}

// progressStep is how many bytes arrive between two reports.
const progressStep = 256 << 10

// receive sends an order and stores what comes. Of what is then there without its history, o.shallow has the names.
func (f *Fetcher) receive(ctx context.Context, at *source.Location, r remote, offered *refs, o *order, m *mirror) error {
	progress := event.Progress{ID: progressID(at), Title: "fetching " + place(at), Unit: "bytes"}
	var next int64
	report := func(size int64) {
		if progress.Current = size; size >= next {
			next = size + progressStep
			source.Progress(ctx, progress)
		}
	}
	return fetchPack(ctx, r, offered, o, func(a *answer) error {
		got, err := receivePack(filepath.Join(m.dir, packsDir), a, ofComponents, report)
		progress.Done = true
		source.Progress(ctx, progress)
		if err != nil {
			return err
		}
		o.shallow = a.shallow
		err = got.store(m.dir)
		if err != nil && len(o.haves) > 0 { // what is here already may be at fault
			return &damagedError{o.wants[0], "cannot be stored: " + err.Error()}
		}
		return err
	})
}

func progressID(at *source.Location) string { return "git " + place(at) }
