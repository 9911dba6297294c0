package lock

import (
	"fmt"
	"slices"
	"strings"
)

// Closed is a place of which nothing may be used that is not in the file.
type Closed struct {
	URL string `toml:"url"` // what the locations begin with: "https://github.com/"; "" is every location
	// Except is the one location there that may be used; "" is none.
	Except string `toml:"except,omitempty"`
	By     string `toml:"by"` // who says so, for people: "--locked requires it"
	// Hint is what to do about something that is missing; it may be empty.
	Hint string `toml:"hint,omitempty"`
}

// Closes returns what closes a location, nil when nothing does.
func (f *File) Closes(url string) *Closed {
	if f == nil {
		return nil
	}
	for i := range f.Closed {
		if c := &f.Closed[i]; strings.HasPrefix(url, c.URL) && (c.Except == "" || !strings.EqualFold(url, c.Except)) {
			return c
		}
	}
	return nil
}

// Join returns what two files have together, each of which may be nil: their packages and images, those of the first where both have one, and what each
// closes. It is an error when they say different things about a revision; it calls them by their names.
func Join(first *File, name string, second *File, secondName string) (*File, error) {
	if first == nil {
		return second, nil
	}
	if second == nil {
		return first, nil
	}
	out := &File{Version: Version, Packages: slices.Clone(first.Packages), Images: slices.Clone(first.Images), Closed: slices.Concat(first.Closed, second.Closed)}
	for _, p := range second.Packages {
		have := first.Find(p.Kind, p.URL, p.Rev)
		switch {
		case have == nil:
			out.Packages = append(out.Packages, p)
		case have.Pin != p.Pin:
			return nil, fmt.Errorf("%s@%s is %s in %s, and %s in %s: lock one of them again", p.URL, p.Rev, have.Pin, name, p.Pin, secondName)
		}
	}
	for _, i := range second.Images {
		have := first.Image(i.Name)
		if have != "" && have != i.Digest {
			return nil, fmt.Errorf("the image %s is %s in %s, and %s in %s: lock one of them again", i.Name, have, name, i.Digest, secondName)
		}
		out.AddImage(i.Name, i.Digest)
	}
	return out, nil
}
