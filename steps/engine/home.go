package engine

import (
	"os"
	"path/filepath"

	"github.com/rungci/rung/internal/tempfolder"
)

// This file is the home folders of components: each has one of its own, unless it requests that of the job. It ends with the step, so that it
// neither reads what others have left in a home folder nor leaves there what they would run.

// homeOf is the home folder of the component that the step with the ID calls.
func (d *directories) homeOf(id string) string { return filepath.Join(d.homes, id) }

// isOwnHome reports whether a folder is the home of one component.
func (d *directories) isOwnHome(home string) bool {
	return d.homes != "" && filepath.Dir(home) == d.homes && filepath.Clean(home) == home
}

// makeHome makes the home folder that the environment names, if it is one of a component. A hook, which runs when the step of its component
// has ended, has an empty one.
func (d *directories) makeHome(env *environ) error {
	if home := env.vars["HOME"].text; d.isOwnHome(home) {
		return os.MkdirAll(home, 0o700)
	}
	return nil
}

// removeHome removes a folder if it is the home of one component.
func (d *directories) removeHome(home string) {
	if d.isOwnHome(home) {
		tempfolder.Remove(home)
	}
}
