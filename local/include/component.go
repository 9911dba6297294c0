package include

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/source"
)

// latest is the version of a component that is the highest release.
const latest = "~latest"

// templates is the folder of a project that has its components.
const templates = "templates"

// address is that of a component: host/group/project/name@version.
type address struct{ host, project, name, version string }

// errNoRelease says that a project has nothing that ~latest could stand for.
var errNoRelease = errors.New("has no release: ~latest is the highest tag like 1.2.3")

// componentName is what a component can be called.
var componentName = lazyregexp.New(`^[A-Za-z0-9_-]+$`)

// parseAddress reads the address of a component.
func parseAddress(text string) (address, error) {
	full, version, _ := strings.Cut(text, "@")
	host, rest, _ := strings.Cut(strings.TrimPrefix(full, "/"), "/")
	a := address{host: strings.ToLower(host), project: path.Dir(rest), name: path.Base(rest), version: version}
	switch {
	case version == "" || strings.ContainsAny(version, "@ \t\r\n") || strings.HasPrefix(version, "-"):
		return address{}, fmt.Errorf("it has no version: write host/group/project/name@version, with a tag, a branch, a commit or %s", latest)
	case host == "" || !strings.Contains(rest, "/") || strings.ContainsAny(host, "?#%@\\ "):
		return address{}, errors.New("a component reference is host/group/project/name@version")
	case !componentName.MatchString(a.name):
		return address{}, fmt.Errorf("%q is not a component name: use letters, digits, - and _", a.name)
	}
	return a, checkProject(a.project)
}

// componentLoader finds what includes of components name.
type componentLoader struct{ *Loader }

// component reads the template of a component.
func (l componentLoader) component(ctx context.Context, place config.Place) (config.File, error) {
	a, err := parseAddress(place.Path)
	if err != nil {
		return config.File{}, err
	}
	if own := l.o.Repository.Server.FQDN(); !strings.EqualFold(a.host, own) {
		l.note(fmt.Sprintf("the component %s is on %s: GitLab accepts only components on the same instance, and this project is on %s", place.Path, a.host, own))
	}
	c := &config.Component{Name: a.name, Reference: a.version}
	if strings.EqualFold(a.host, l.o.Repository.Server.FQDN()) && l.isOwn(a.project, a.version) {
		return l.ownComponent(ctx, a, c)
	}
	rev := a.version
	if _, overridden := l.override(a.host, a.project); !overridden {
		if rev, err = l.version(ctx, a); err != nil {
			return config.File{}, explain(err, fmt.Sprintf("--project %s=FOLDER takes it from a folder", a.project))
		}
	}
	f, err := l.projectFiles(ctx, a.host, a.project, rev)
	if err != nil {
		return config.File{}, err
	}
	if isRelease(rev) {
		c.Version = rev
	}
	c.SHA = f.sha
	name, data, err := a.template(f)
	if err != nil {
		return config.File{}, err
	}
	where := config.Place{Kind: config.Project, Project: a.project, Ref: c.SHA, Path: name}
	if c.SHA == "" { // of a folder that is not a repository
		where.Ref = a.version
	}
	l.homes[where.Project+"@"+where.Ref] = a.host
	return config.File{Data: data, Place: where, Component: c}, nil
}

// ownComponent reads a component of the project that the pipeline runs for, from the work tree: projects of components try
// theirs in this way.
func (l componentLoader) ownComponent(ctx context.Context, a address, c *config.Component) (config.File, error) {
	names, err := l.o.Repository.Files(ctx)
	if err != nil {
		return config.File{}, err
	}
	root := l.o.Repository.Root
	f := &files{names: names, read: func(name string) ([]byte, error) { return readBelow(root, name) }}
	c.SHA = l.o.Repository.SHA()
	name, data, err := a.template(f)
	return config.File{Data: data, Place: config.Place{Kind: config.Local, Path: name}, Component: c}, err
}

// template finds a component's file among those of its project.
func (a address) template(f *files) (name string, data []byte, err error) {
	for _, name := range []string{path.Join(templates, a.name+".yml"), path.Join(templates, a.name, "template.yml")} {
		if f.has(name) {
			data, err = f.load(name)
			return name, data, err
		}
	}
	hint := fmt.Sprintf("it has none: a component is %s/NAME.yml or %s/NAME/template.yml", templates, templates)
	if names := components(f); len(names) > 0 {
		const most = 10
		shown := names[:min(len(names), most)]
		hint = "it has " + strings.Join(shown, ", ")
		if len(names) > most {
			hint += fmt.Sprintf(" and %d more", len(names)-most)
		}
		if near := diag.Suggest(a.name, names); near != "" {
			hint = fmt.Sprintf("did you mean %q? %s", near, hint)
		}
	}
	return "", nil, fmt.Errorf("%s has no component %q: %s", a.project, a.name, hint)
}

// components are the names of the components among a project's files.
func components(f *files) []string {
	var names []string
	for _, name := range f.names {
		rest, ok := strings.CutPrefix(name, templates+"/")
		if !ok {
			continue
		}
		component, isFile := strings.CutSuffix(rest, ".yml")
		if folder, isFolder := strings.CutSuffix(rest, "/template.yml"); isFolder {
			component = folder
		}
		if isFile && !strings.Contains(component, "/") {
			names = append(names, component)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// version finds the revision that a component's version means: ~latest and the beginning of a version are the highest release
// that fits; everything else is a revision as it is.
func (l componentLoader) version(ctx context.Context, a address) (string, error) {
	if a.version != latest && !isPartial(a.version) {
		return a.version, nil
	}
	locations := l.locations(a.host, a.project, a.version)
	var first error
	for _, at := range locations {
		rev, err := l.release(ctx, at)
		if err == nil {
			return rev, nil
		}
		if first == nil {
			first = err
		}
		if errors.Is(err, errNoRelease) || ctx.Err() != nil || l.o.Offline {
			break
		}
	}
	return "", first
}

// release finds the highest release of a location that its revision stands for.
func (l componentLoader) release(ctx context.Context, at *source.Location) (string, error) {
	if _, err := l.apply(at); err != nil {
		return "", err
	}
	key := entryKey{Kind: kindVersion, Place: strings.TrimPrefix(at.Name, "https://"), Ref: at.Rev}
	if rev := l.decided[key.String()]; rev != "" {
		return rev, nil
	}
	if locked := l.lock.find(key); locked != nil && !l.o.Refresh {
		l.decided[key.String()] = locked.Pin
		return locked.Pin, nil
	}
	name := []string{kindVersion, at.Name, source.WithoutUserinfo(at.URL), at.Rev}
	rev, ok := l.known(source.DefaultRefresh, name...)
	if !ok {
		if l.o.Offline && !strings.HasPrefix(at.URL, "file://") {
			return "", &offlineError{at.Name + "@" + at.Rev}
		}
		tags, err := l.tagsOf(ctx, at)
		if err != nil {
			return "", err
		}
		switch rev = highest(tags, at.Rev); {
		case rev == "" && at.Rev == latest:
			return "", fmt.Errorf("%s %w", at.Name, errNoRelease)
		case rev == "": // a branch can be called 1.2
			return at.Rev, nil
		}
		if err := l.o.Cache.SetName(rev, name...); err != nil {
			return "", err
		}
	}
	l.decided[key.String()] = rev
	l.lock.set(entry{entryKey: key, Pin: rev})
	return rev, nil
}

// tagsOf asks for the tags of a repository, once.
func (l componentLoader) tagsOf(ctx context.Context, at *source.Location) (map[string]string, error) {
	if tags := l.tags[at.URL]; tags != nil {
		return tags, nil
	}
	tags, err := l.o.Git.Tags(ctx, at)
	if err == nil {
		l.tags[at.URL] = tags
	}
	return tags, err
}

// isPartial reports whether a version is the beginning of one: 1 or 1.2.
func isPartial(version string) bool {
	parts := strings.Split(version, ".")
	for _, part := range parts {
		if part == "" || strings.Trim(part, "0123456789") != "" {
			return false
		}
	}
	return len(parts) <= 2
}

// isRelease reports whether a tag is a whole version.
func isRelease(tag string) bool {
	v := "v" + strings.TrimPrefix(tag, "v")
	core, _, _ := strings.Cut(strings.TrimPrefix(v, "v"), "-")
	core, _, _ = strings.Cut(core, "+")
	return semver.IsValid(v) && strings.Count(core, ".") == 2
}

// highest returns the tag that a version stands for: the one of that name, or the highest release that begins with it and is no
// pre-release. It is "" when there is none.
func highest(tags map[string]string, version string) string {
	if _, ok := tags[version]; ok {
		return version
	}
	best := ""
	for tag := range tags {
		v := "v" + strings.TrimPrefix(tag, "v")
		fits := version == latest || strings.HasPrefix(v, "v"+version+".")
		if !fits || !isRelease(tag) || semver.Prerelease(v) != "" {
			continue
		}
		order := semver.Compare(v, "v"+strings.TrimPrefix(best, "v"))
		if best == "" || order > 0 || order == 0 && tag < best {
			best = tag
		}
	}
	return best
}
