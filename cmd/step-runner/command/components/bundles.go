package components

import (
	"errors"
	"io/fs"
	"runtime"
	"strings"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/publish/bundle"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/replay"
	"github.com/rungci/rung/steps/source/lock"
)

// OpenBundle opens a bundle. It stays open until the program ends.
func OpenBundle(path string) (*bundle.Bundle, error) {
	b, err := bundle.Open(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return nil, exit.Coded(exit.Definition, "%v", err)
	}
	return b, err
}

// openBundles opens the bundles that the flags name.
func openBundles(o *Flags) ([]*bundle.Bundle, error) {
	out := []*bundle.Bundle{}
	for _, path := range o.Bundles {
		b, err := OpenBundle(path)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// lockBundled adds to a lock file, nil for none, what references were in the runs of bundles: those that it does not have.
func lockBundled(locked *lock.File, bundles []*bundle.Bundle) (*lock.File, error) {
	for _, b := range bundles {
		t, err := b.Trace()
		if err != nil {
			return nil, exit.Coded(exit.Definition, "%v", err)
		}
		known, err := replay.Lock(t, t.Runtime.OS == runtime.GOOS && t.Runtime.Arch == runtime.GOARCH)
		if err != nil {
			return nil, err
		}
		merged := &lock.File{Version: lock.Version}
		if locked != nil {
			merged.Packages = locked.Packages
		}
		for _, p := range known.Packages {
			if merged.Find(p.Kind, p.URL, p.Rev) == nil {
				merged.Packages = append(merged.Packages, p)
			}
		}
		locked = merged
	}
	return locked, nil
}

// IsArchive reports whether a name is that of an archive.
func IsArchive(name string) bool {
	return strings.HasSuffix(name, ".zip") || strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tgz")
}

// IsList reports whether a component is a plain list of steps, which has no interface.
func IsList(c *plan.Component) bool {
	return c.Definition.Exec == nil && len(c.Spec.Inputs)+len(c.Spec.Outputs)+len(c.Spec.Env)+len(c.Spec.Secrets) == 0 && !c.Spec.DelegateOutputs
}
