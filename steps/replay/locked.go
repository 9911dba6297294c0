package replay

import (
	"slices"
	"strings"

	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source/lock"
	"github.com/rungci/rung/steps/trace"
)

// Fetched are the components of a run that came from elsewhere, each once, in the order in which they were met.
func Fetched(t *trace.Trace) []*trace.Resolved {
	type component struct {
		kind                           plan.RefKind
		url, rev, pin, pkg, path, file string
	}
	var out []*trace.Resolved
	seen := map[component]bool{}
	t.Walk(func(s *trace.Step, _ int) {
		if s.Resolved == nil || s.Resolved.Origin == nil {
			return
		}
		o := s.Resolved.Origin
		key := component{o.Kind, o.URL, o.Rev, o.Pin, o.Package, o.Path, s.Resolved.File}
		if !seen[key] {
			seen[key] = true
			out = append(out, s.Resolved)
		}
	})
	return out
}

// Lock makes a lock file of what the references of a recorded run were. The content of images is locked only for machines like
// the one of the run: elsewhere it is another.
func Lock(t *trace.Trace, samePlatform bool) (*lock.File, error) {
	f := &lock.File{Version: lock.Version}
	index := map[string]int{}
	for _, c := range Fetched(t) {
		o := c.Origin
		if o.Kind == plan.RefBuiltin {
			continue
		}
		if o.URL == "" || o.Pin == "" || o.Package == "" {
			return nil, wrong("the trace is damaged: it does not say where %s came from", c.Ref)
		}
		revs := []string{o.Rev}
		if o.Kind == plan.RefArchive { // a reference may or may not name the digest, which is the pin
			revs = []string{"", o.Pin}
		}
		for _, rev := range revs {
			key := strings.Join([]string{string(o.Kind), o.URL, rev}, "\x00")
			i, known := index[key]
			if !known {
				i = len(f.Packages)
				index[key] = i
				p := lock.Package{Kind: o.Kind, URL: o.URL, Rev: rev, Pin: o.Pin, Content: o.Package}
				if o.Kind == plan.RefOCI && !samePlatform {
					p.Platform = "the platform of the recorded run"
				}
				f.Packages = append(f.Packages, p)
			} else if f.Packages[i].Content != o.Package || f.Packages[i].Pin != o.Pin {
				return nil, wrong("the trace cannot be replayed: %s was two different things in one run", o.URL)
			}
			f.Packages[i].Components = append(f.Packages[i].Components,
				lock.Component{Reference: c.Ref, Path: o.Path, File: c.File, Digest: c.Digest})
		}
	}
	f.Images = recordedImages(t)
	return f, nil
}

// recordedImages are the images of the containers of steps that a registry has. A name that was two images in one run is none of them.
func recordedImages(t *trace.Trace) (all []lock.Image) {
	var found lock.File
	moved := map[string]bool{}
	t.Walk(func(s *trace.Step, _ int) {
		for i := range s.Attempts {
			image := s.Attempts[i].Image
			if image == nil || !containers.HasDigest(image.Pull) || containers.HasDigest(image.Name) {
				continue
			}
			digest := containers.ParseName(image.Pull).Digest
			if have := found.Image(image.Name); have != "" && have != digest {
				moved[image.Name] = true
			}
			found.AddImage(image.Name, digest)
		}
	})
	return slices.DeleteFunc(found.Images, func(i lock.Image) bool { return moved[i.Name] })
}
