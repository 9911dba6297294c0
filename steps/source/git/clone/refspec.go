package clone

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// mapped is what refspecs ask of what a server offers.
type mapped struct {
	wants []plumbing.Hash
	refs  map[string]plumbing.Hash // that are made
}

// mapRefs reads refspecs as git fetch does: [+]source[:destination], where the source is a ref, the name of an object, or has one *. What leads to no
// ref is fetched, and has no name here.
func mapRefs(specs []string, offered map[string]plumbing.Hash) (*mapped, error) {
	m := &mapped{refs: map[string]plumbing.Hash{}}
	for _, spec := range specs {
		if err := m.add(spec, offered); err != nil {
			return nil, err
		}
	}
	plumbing.HashesSort(m.wants)
	m.wants = slices.Compact(m.wants)
	return m, nil
}

func (m *mapped) add(spec string, offered map[string]plumbing.Hash) error {
	source, to, _ := strings.Cut(strings.TrimPrefix(spec, "+"), ":")
	if strings.HasPrefix(spec, "^") {
		return Refuse("refspecs: %q leaves refs out, which cannot be done without git", spec)
	}
	if to != "" && !strings.HasPrefix(to, "refs/") {
		return Refuse("refspecs: in %q the ref to make is not the full name of one, which begins with refs/", spec)
	}
	before, after, pattern := strings.Cut(source, "*")
	if pattern {
		beforeTo, afterTo, ok := strings.Cut(to, "*")
		if to != "" && !ok || strings.Contains(after, "*") || strings.Contains(afterTo, "*") {
			return Refuse("refspecs: %q has a * on one side only, or more than one", spec)
		}
		for name, h := range offered {
			if len(name) < len(before)+len(after) || !strings.HasPrefix(name, before) || !strings.HasSuffix(name, after) || name == "HEAD" {
				continue
			}
			made := ""
			if to != "" {
				made = beforeTo + name[len(before):len(name)-len(after)] + afterTo
				if !validRef(made) {
					continue // as git does with what a server should not have
				}
			}
			m.take(name, h, made)
		}
		return nil
	}
	if to != "" && !validRef(to) {
		return &RefusedError{fmt.Errorf("refspecs: in %q %q is not the name of a ref", spec, to)}
	}
	if plumbing.IsHash(source) && len(source) == 2*len(plumbing.ZeroHash) {
		m.take("", plumbing.NewHash(source), to)
		return nil
	}
	if source == "" {
		source = "HEAD"
	}
	for _, prefix := range []string{"", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"} {
		if h, ok := offered[prefix+source]; ok {
			m.take(prefix+source, h, to)
			return nil
		}
	}
	return fmt.Errorf("the server has no ref %s", source)
}

// take wants an object. From, which may be empty, is the ref on the server: a branch that is fetched for any reason is the remote's branch here, too.
func (m *mapped) take(from string, h plumbing.Hash, to string) {
	if branch, ok := strings.CutPrefix(from, "refs/heads/"); ok && validRef(trackingPrefix+branch) {
		m.refs[trackingPrefix+branch] = h
	}
	m.wants = append(m.wants, h)
	if to != "" {
		m.refs[to] = h
	}
}

// trackingPrefix is where the configuration says that branches of the remote go.
const trackingPrefix = "refs/remotes/origin/"

// validRef reports whether git accepts the name of a ref.
func validRef(name string) bool {
	return strings.HasPrefix(name, "refs/") && plumbing.ReferenceName(name).Validate() == nil
}
