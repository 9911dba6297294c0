package locker

import (
	"fmt"
	"strings"

	"github.com/rungci/rung/steps/source/lock"
)

// Change is how a lock file differs from what it should be.
type Change string

// The changes.
const (
	Missing Change = "missing" // it is referred to, and is not in the lock file
	Moved   Change = "moved"   // its name points to something else now
	Changed Change = "changed" // the same pin holds other files now
	Unused  Change = "unused"  // nothing refers to it
)

// Difference is one entry of a lock file that is not as it should be.
type Difference struct {
	Change    Change `json:"change"`
	Reference string `json:"reference"`
	Was       string `json:"was,omitempty"`
	Is        string `json:"is,omitempty"`
}

// String says it in one line.
func (d Difference) String() string {
	switch {
	case d.Was != "" && d.Is != "":
		return fmt.Sprintf("%s: %s, was %s, is %s", d.Change, d.Reference, d.Was, d.Is)
	case d.Is != "":
		return fmt.Sprintf("%s: %s, is %s", d.Change, d.Reference, d.Is)
	}
	return fmt.Sprintf("%s: %s", d.Change, d.Reference)
}

// Compare says how a lock file differs from a new one. Old may be nil.
func Compare(old, now *lock.File) (all []Difference) {
	if old == nil {
		old = &lock.File{}
	}
	for i := range now.Packages {
		p := &now.Packages[i]
		was := old.Find(p.Kind, p.URL, p.Rev)
		switch {
		case was == nil:
			all = append(all, Difference{Change: Missing, Reference: name(p), Is: p.Pin})
		case was.Pin != p.Pin:
			all = append(all, Difference{Change: Moved, Reference: name(p), Was: was.Pin, Is: p.Pin})
		case was.Platform == p.Platform && was.Content != p.Content:
			all = append(all, Difference{Change: Changed, Reference: name(p), Was: was.Content, Is: p.Content})
		default:
			all = append(all, components(was, p)...)
		}
	}
	for i := range old.Packages {
		if p := &old.Packages[i]; now.Find(p.Kind, p.URL, p.Rev) == nil {
			all = append(all, Difference{Change: Unused, Reference: name(p), Was: p.Pin})
		}
	}
	return append(all, images(old, now)...)
}

// images compares the images of containers.
func images(old, now *lock.File) (all []Difference) {
	for _, i := range now.Images {
		switch was := old.Image(i.Name); was {
		case i.Digest:
		case "":
			all = append(all, Difference{Change: Missing, Reference: imageName(i), Is: i.Digest})
		default:
			all = append(all, Difference{Change: Moved, Reference: imageName(i), Was: was, Is: i.Digest})
		}
	}
	for _, i := range old.Images {
		if now.Image(i.Name) == "" {
			all = append(all, Difference{Change: Unused, Reference: imageName(i), Was: i.Digest})
		}
	}
	return all
}

func imageName(i lock.Image) string { return "the image " + i.Name }

// components compares what is used of one package.
func components(was, is *lock.Package) (all []Difference) {
	if was.Platform != is.Platform {
		return nil // their digests say nothing about each other
	}
	for _, c := range is.Components {
		switch digest := was.Component(c.Path, c.File); digest {
		case c.Digest:
		case "":
			all = append(all, Difference{Change: Missing, Reference: c.Reference + " (" + strings.TrimPrefix(c.Path+"/"+c.File, "/") + ")", Is: c.Digest})
		default:
			all = append(all, Difference{Change: Changed, Reference: c.Reference, Was: digest, Is: c.Digest})
		}
	}
	return all
}

func name(p *lock.Package) string {
	if p.Rev == "" {
		return p.URL
	}
	return p.URL + "@" + p.Rev
}
