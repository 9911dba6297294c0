package git

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// refs is what a repository offers.
type refs struct {
	names  map[string]plumbing.Hash          // every ref by its full name, and HEAD
	peeled map[string]plumbing.Hash          // what annotated tags are about in the end
	caps   map[string]bool                   // what the server can do
	peel   func(plumbing.Hash) plumbing.Hash // what an object is about in the end, where peeled does not tell; may be nil
}

// Limits of what a server tells about itself.
const (
	maxRefs        = 2_000_000
	maxAdvertBytes = 256 << 20
)

// errNoCommits says that a repository is there and empty.
var errNoCommits = errors.New("the repository is empty")

// readRefs reads what a server says first. Over HTTP that begins with the name of the service.
func readRefs(p *packets, overHTTP bool) (*refs, error) {
	r := &refs{names: map[string]plumbing.Hash{}, peeled: map[string]plumbing.Hash{}}
	if overHTTP {
		text, flush, err := p.line()
		if err == nil && !flush && text != "# service=git-upload-pack" {
			err = errNotGit
		}
		if err == nil && !flush {
			_, flush, err = p.line()
		}
		if err == nil && !flush {
			err = errNotGit
		}
		if err != nil {
			return nil, unexpectedEOF(err)
		}
	}
	for {
		text, flush, err := p.line()
		switch {
		case errors.Is(err, io.EOF) && r.caps == nil:
			return nil, io.EOF // SSH servers say nothing at all where there is no repository
		case err != nil:
			return nil, unexpectedEOF(err)
		case flush && len(r.names) == 0:
			return r, errNoCommits
		case flush:
			return r, nil
		}
		if err := r.line(text); err != nil {
			return nil, err
		}
		if len(r.names) > maxRefs {
			return nil, fmt.Errorf("it has more than %d refs", maxRefs)
		}
	}
}

// line takes one line of the list.
func (r *refs) line(text string) error {
	if r.caps == nil {
		if text == "version 1" {
			return nil
		}
		var caps string
		text, caps, _ = strings.Cut(text, "\x00")
		r.caps = map[string]bool{}
		for c := range strings.FieldsSeq(caps) {
			r.caps[c] = true
		}
	}
	hash, name, ok := strings.Cut(text, " ")
	if hash == "shallow" {
		return nil
	}
	if ok && len(hash) == 64 && isHex(hash) {
		return errors.New("its objects are named by SHA-256, which this program cannot read")
	}
	if !ok || !isCommitName(hash) {
		return errNotGit
	}
	if name == "capabilities^{}" {
		return nil
	}
	if tag, ok := strings.CutSuffix(name, "^{}"); ok {
		r.peeled[tag] = plumbing.NewHash(hash)
	} else {
		r.names[name] = plumbing.NewHash(hash)
	}
	return nil
}

// commit returns what a ref points to in the end.
func (r *refs) commit(name string) (plumbing.Hash, bool) {
	if h, ok := r.peeled[name]; ok {
		return h, true
	}
	h, ok := r.names[name]
	if ok && r.peel != nil {
		h = r.peel(h)
	}
	return h, ok
}

// offers returns what to ask a server for to get a commit that it offers: the commit, or the annotated tag that is about it.
func (r *refs) offers(commit plumbing.Hash) (plumbing.Hash, bool) {
	for _, h := range r.names {
		if h == commit {
			return h, true
		}
	}
	for name, h := range r.peeled {
		if h == commit {
			return r.names[name], true
		}
	}
	return plumbing.ZeroHash, false
}

// all returns everything that a clone would ask for, each once.
func (r *refs) all() []plumbing.Hash {
	seen := map[plumbing.Hash]bool{}
	var wants []plumbing.Hash
	for name, h := range r.names {
		if (name == "HEAD" || strings.HasPrefix(name, headsPrefix) || strings.HasPrefix(name, tagsPrefix)) && !seen[h] {
			seen[h] = true
			wants = append(wants, h)
		}
	}
	plumbing.HashesSort(wants)
	return wants
}

const (
	headsPrefix = "refs/heads/"
	tagsPrefix  = "refs/tags/"
)

// short returns the names of the tags or branches.
func (r *refs) short(prefix string) []string {
	var names []string
	for name := range r.names {
		if short, ok := strings.CutPrefix(name, prefix); ok {
			names = append(names, short)
		}
	}
	return names
}

// isCommitName reports whether text is the full name of an object, in lower case.
func isCommitName(text string) bool { return len(text) == 40 && isHex(text) }

func isHex(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}
