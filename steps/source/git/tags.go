package git

import (
	"context"
	"errors"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/rungci/rung/steps/source"
)

// Tags returns the tags of a repository, and the commits that they stand for. Its errors are those of Resolve.
func (f *Fetcher) Tags(ctx context.Context, at *source.Location) (map[string]string, error) {
	a, err := addressOf(at)
	if err != nil {
		return nil, err
	}
	offered, err := f.offered(ctx, at, a)
	if errors.Is(err, errNoCommits) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, explain(ctx, at, a, err)
	}
	tags := map[string]string{}
	for name := range offered.names {
		if tag, ok := strings.CutPrefix(name, tagsPrefix); ok {
			commit, _ := offered.commit(name)
			tags[tag] = commit.String()
		}
	}
	return tags, nil
}

// offered asks a repository, here or on a server, for its refs.
func (f *Fetcher) offered(ctx context.Context, at *source.Location, a *address) (*refs, error) {
	if a.scheme == "file" {
		l, err := openLocal(a.path)
		if err != nil {
			return nil, err
		}
		defer l.close()
		// What tags stand for is looked up while the repository is open.
		found := &refs{names: l.refs.names, peeled: map[string]plumbing.Hash{}}
		for name := range l.refs.names {
			if commit, ok := l.refs.commit(name); ok {
				found.peeled[name] = commit
			}
		}
		return found, nil
	}
	var offered *refs
	err := f.retry(ctx, func() error {
		r, err := f.connect(ctx, at, a)
		if err != nil {
			return err
		}
		defer r.close()
		offered, err = r.refs(ctx)
		return err
	})
	return offered, err
}
