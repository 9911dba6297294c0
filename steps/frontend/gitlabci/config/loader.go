package config

import (
	"context"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Kind is where an included file is from.
type Kind uint8

// The kinds of place.
const (
	// Local is a file of the project that is being run.
	Local Kind = iota
	// Project is a file of another project on the same GitLab.
	Project
	// Remote is a URL.
	Remote
	// Template is one of GitLab's own templates.
	Template
	// CatalogComponent is a CI/CD component.
	CatalogComponent
)

// Place is where a file is.
type Place struct {
	Kind Kind
	// Project and Ref are the project's path and the branch, tag or commit of it; "" is its default branch.
	Project, Ref string
	// Path is the file's path from the root of its project without a slash before it, the URL, the template's name, or the
	// component's address.
	Path string
}

// String returns the place as diagnostics call it. What a URL holds of names and passwords is left out.
func (p Place) String() string {
	switch {
	case p.Kind == Remote:
		return withoutUser(p.Path)
	case p.Kind == Template:
		return "template:" + p.Path
	case p.Kind == Project && p.Ref != "":
		return p.Project + "@" + p.Ref + ":" + p.Path
	case p.Kind == Project:
		return p.Project + ":" + p.Path
	default:
		return p.Path
	}
}

// withoutUser returns a URL without the user's name and password.
func withoutUser(text string) string {
	if u, err := url.Parse(text); err == nil && u.Scheme != "" {
		if u.User == nil {
			return text
		}
		u.User = nil
		return u.String()
	}
	// What is no URL may still hold a password.
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return text
	}
	authority, path, slash := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		authority = authority[at+1:]
	}
	if slash {
		path = "/" + path
	}
	return scheme + "://" + authority + path
}

// hideUsers puts stars over the names and passwords in the URLs of a source line, one for each character.
func hideUsers(text string) string {
	const mark = "://"
	at := strings.Index(text, mark)
	if at < 0 {
		return text
	}
	at += len(mark)
	end := strings.IndexAny(text[at:], "/ \t'\"?#")
	if end < 0 {
		end = len(text) - at
	}
	authority := text[at : at+end]
	if user := strings.LastIndexByte(authority, '@'); user >= 0 {
		authority = strings.Repeat("*", utf8.RuneCountInString(authority[:user])) + authority[user:]
	}
	return text[:at] + authority + hideUsers(text[at+end:])
}

// File is an included file.
type File struct {
	// Name is what diagnostics call it; the place when it is empty.
	Name string
	Data []byte
	// Place is where the file really is: for a component, the project, commit and path, to which the files that it includes
	// by `local` belong. When it is the zero Place, the file is where it was asked for.
	Place Place
	// Component is what $[[ component.name ]] and its like stand for, nil for what is no component.
	Component *Component
}

// Component is the component context. An empty Version is null: the component has no release.
type Component struct {
	Name, SHA, Version, Reference string
}

// Loader gives the files that a configuration includes. Its errors are shown as they are, so they must not hold secrets;
// one that wraps fs.ErrNotExist says that there is no such file.
type Loader interface {
	// Load returns a file.
	Load(ctx context.Context, place Place) (File, error)
	// Glob returns the paths of the files in the project of a place that match its path, in which * stands for any characters
	// but / and ** for any characters.
	Glob(ctx context.Context, pattern Place) ([]string, error)
}
