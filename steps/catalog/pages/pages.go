// Package pages is the code of builtin://pages: a folder published as GitLab publishes pages, in a folder on this machine.
//
// The pages are copied to a new folder beside the old one, which then takes its place: nobody sees half of them. A deployment with a
// path prefix is a folder below the location; publishing without a prefix keeps those, as GitLab does. Their names are in the file
// .deployments of the location.
package pages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/value"
)

type inputs struct {
	Publish    string `json:"publish"`
	Location   string `json:"location"`
	PathPrefix string `json:"path_prefix"`
	ExpireIn   string `json:"expire_in"`
}

// Run is builtin://pages.
func Run(ctx context.Context, call *program.Call) error {
	var in inputs
	if err := call.Decode(&in); err != nil {
		return err
	}
	if in.Location == "" {
		return errors.New("pages need a location")
	}
	prefix := Slug(in.PathPrefix)
	if in.PathPrefix != "" && prefix == "" {
		return fmt.Errorf("nothing is left of the path prefix %q; it needs letters or digits", in.PathPrefix)
	}
	from, err := source(call.WorkDir, in.Publish)
	if err != nil {
		return err
	}
	defer from.Close()
	location := in.Location
	if !filepath.IsAbs(location) {
		location = filepath.Join(call.WorkDir, location)
	}
	if err := apart(filepath.Join(call.WorkDir, filepath.FromSlash(in.Publish)), location); err != nil {
		return err
	}
	files, path, err := publish(ctx, call, from, location, prefix)
	if err != nil {
		return fmt.Errorf("publishing %s: %w", in.Publish, err)
	}
	fmt.Fprintf(call.Stdout, "Published %d files: %s\n", files, path)
	if in.ExpireIn != "" && in.ExpireIn != "never" {
		fmt.Fprintf(call.Stdout, "They are kept until somebody removes them; on GitLab they would be gone after %s\n", in.ExpireIn)
	}
	if err := call.Output("files", value.OfInt(int64(files))); err != nil {
		return err
	}
	return call.Output("path", value.OfString(path))
}

// maxSlug is how long a path prefix may be, in bytes.
const maxSlug = 63

// Slug is a path prefix as GitLab makes it of a text: small letters, digits and dots; a hyphen for every other character; none of
// the signs at the ends; and at most 63 bytes. It is one plain name, or "".
func Slug(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '.', r == '-':
			return r
		}
		return '-'
	}, strings.ToLower(text))
	return strings.Trim(text[:min(len(text), maxSlug)], "-.")
}

// source opens the folder to publish, which is one of the work directory.
func source(dir, publish string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name := filepath.Clean(filepath.FromSlash(publish))
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no folder %q to publish; the job must make it", publish)
	case err != nil:
		return nil, fmt.Errorf("the folder to publish, %q, is outside of the work directory, or leads there", publish)
	case !info.IsDir():
		return nil, fmt.Errorf("%q is not a folder; pages are a folder", publish)
	}
	return root.OpenRoot(name)
}

// apart reports an error when one of two folders is in the other: pages would be copied into themselves, or replace what they come from.
func apart(from, location string) error {
	a, b := resolved(from), resolved(location)
	if a == b || inside(a, b) || inside(b, a) {
		return fmt.Errorf("the folder to publish and the location %s must not contain each other", location)
	}
	return nil
}

func inside(outer, inner string) bool {
	relative, err := filepath.Rel(outer, inner)
	return err == nil && filepath.IsLocal(relative)
}

// resolved is a path without the links of those of its folders that are there.
func resolved(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	rest := ""
	for at := path; ; {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		up := filepath.Dir(at)
		if up == at {
			return path
		}
		rest = filepath.Join(filepath.Base(at), rest)
		at = up
	}
}

// Take publishes the plain files of a folder that was fetched from a job, as the step does it. A folder that does not exist publishes
// nothing.
func Take(ctx context.Context, folder, location, pathPrefix string) error {
	prefix := Slug(pathPrefix)
	root, err := os.OpenRoot(filepath.Join(folder, prefix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	_, _, err = publish(ctx, &program.Call{Stdout: io.Discard, Stderr: io.Discard}, root, location, prefix)
	return err
}

// publish copies the pages beside where they shall be, and moves them there.
func publish(ctx context.Context, call *program.Call, from *os.Root, location, prefix string) (files int, path string, err error) {
	parent, path := filepath.Dir(location), location
	if prefix != "" {
		parent, path = location, filepath.Join(location, prefix)
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return 0, "", err
	}
	fresh, err := os.MkdirTemp(parent, ".pages-*.new")
	if err != nil {
		return 0, "", err
	}
	defer os.RemoveAll(fresh) // when it did not get its name
	if err := os.Chmod(fresh, 0o755); err != nil {
		return 0, "", err
	}
	c := &copier{call: call, from: from, to: fresh}
	if err := c.copy(ctx, "."); err != nil {
		return 0, "", err
	}
	if prefix != "" {
		if err := remember(location, append(deployments(location), prefix)); err != nil {
			return 0, "", err
		}
		return c.files, path, swap(fresh, path)
	}
	kept := deployments(location)
	if len(kept) > 0 {
		if err := remember(fresh, kept); err != nil {
			return 0, "", err
		}
	}
	return c.files, path, swap(fresh, path, kept...)
}

// swap puts a folder in the place of another, and takes some of the folders in that over.
func swap(fresh, path string, kept ...string) error {
	old, err := os.MkdirTemp(filepath.Dir(path), ".pages-*.old")
	if err != nil {
		return err
	}
	defer os.RemoveAll(old)
	before := filepath.Join(old, "pages")
	if err := os.Rename(path, before); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return errors.Join(err, os.Rename(before, path))
	}
	for _, name := range kept {
		if err := os.RemoveAll(filepath.Join(path, name)); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(before, name), filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

// deploymentsFile lists the deployments with a path prefix, a line each.
const deploymentsFile = ".deployments"

// deployments returns those that are there.
func deployments(location string) []string {
	text, err := os.ReadFile(filepath.Join(location, deploymentsFile))
	if err != nil {
		return nil
	}
	var out []string
	for name := range strings.FieldsSeq(string(text)) {
		if info, err := os.Lstat(filepath.Join(location, name)); err == nil && info.IsDir() && name == Slug(name) {
			out = append(out, name)
		}
	}
	return out
}

func remember(location string, names []string) error {
	slices.Sort(names)
	names = slices.Compact(names)
	return os.WriteFile(filepath.Join(location, deploymentsFile), []byte(strings.Join(names, "\n")+"\n"), 0o644)
}
