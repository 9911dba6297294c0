package config

import (
	"context"
	"net/url"
	"slices"
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
		return withoutTokens(withoutUser(p.Path))
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

// withoutTokens returns a URL with stars for what looks like a secret in its query.
func withoutTokens(address string) string {
	bare, query, found := strings.Cut(address, "?")
	if !found {
		return address
	}
	fields := strings.Split(query, "&")
	for i, field := range fields {
		if name, _, ok := strings.Cut(field, "="); ok && isSecretName(name) {
			fields[i] = name + "=***"
		}
	}
	return bare + "?" + strings.Join(fields, "&")
}

// isSecretName guesses by the name of a field of a query whether its value is a secret.
func isSecretName(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"token", "key", "sig", "auth", "pass", "secret", "cred"}, func(sign string) bool { return strings.Contains(name, sign) })
}

// hideSecrets takes what looks like a secret in URLs out of a source line, and leaves its columns as they are.
func hideSecrets(text string) string { return hideTokens(hideUsers(text)) }

// hideTokens puts stars over what looks like a secret in the queries of URLs of a source line, one for each character.
func hideTokens(text string) string {
	const ends = "&# \t'\"]},"
	if !strings.Contains(text, "://") || !strings.Contains(text, "?") {
		return text
	}
	var b strings.Builder
	for {
		at := strings.IndexAny(text, "?&")
		if at < 0 {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:at+1])
		text = text[at+1:]
		end := strings.IndexAny(text, ends)
		if end < 0 {
			end = len(text)
		}
		if name, value, ok := strings.Cut(text[:end], "="); ok && isSecretName(name) {
			b.WriteString(name + "=" + strings.Repeat("*", utf8.RuneCountInString(value)))
			text = text[end:]
		}
	}
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
	// Component is what $[[ component.name ]] and its like stand for, nil for what is not a component.
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
