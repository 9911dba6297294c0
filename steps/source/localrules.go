package source

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source/tree"
)

// loadLocal loads a component from a folder on this machine, of which the user's rules may demand something as of any other place.
func loadLocal(ctx context.Context, r *Resolver, ref *plan.Reference, from string) (*Component, error) {
	c, err := r.Local.Load(ctx, ref, from)
	if err != nil {
		return nil, err
	}
	root := c.Dir
	if rel, err := filepath.Rel(r.WorkDir, c.Dir); err == nil && filepath.IsLocal(rel) {
		root = r.WorkDir // the folder of a project is one package
	}
	if ref.Kind == plan.RefAction {
		if err := inside(c, ref.Text, root); err != nil {
			return nil, err
		}
	}
	if r.Rules == nil {
		return c, nil
	}
	folders := []string{c.Dir}
	if real, err := filepath.EvalSymlinks(c.Dir); err == nil && real != c.Dir {
		folders = append(folders, real) // a link is no way around a rule
	}
	for _, folder := range folders {
		trust, err := r.Rules.Apply(folderLocation(folder))
		if err == nil && trust.Verify != nil {
			err = signedFolder(c, ref.Text, trust)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// folderLocation is a folder on this machine as rules see it.
func folderLocation(dir string) *Location {
	path := filepath.ToSlash(dir)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/folder
	}
	at := (&url.URL{Scheme: "file", Path: path}).String()
	return &Location{Kind: plan.RefLocal, Name: at, URL: at}
}

// signedFolder holds the folder of a local component against the signatures that are in it.
func signedFolder(c *Component, what string, trust Trust) error {
	denied := &DeniedError{What: what, Why: "your sources demand a signature, and it has none", Hint: "sign its folder with step-runner sign, or change signed_by in sources.toml"}
	envelope, err := os.ReadFile(filepath.Join(c.Dir, SignatureFile))
	if errors.Is(err, fs.ErrNotExist) {
		return denied
	}
	if err != nil {
		return err
	}
	digest, err := tree.Digest(c.Dir)
	if err != nil {
		return err
	}
	if _, err := trust.Verify(envelope, digest); err != nil {
		denied.Why = "your sources demand a signature, and the one it has will not do: " + err.Error()
		return denied
	}
	return nil
}
