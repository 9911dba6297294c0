package manager

import (
	"errors"
	"path/filepath"

	"github.com/rungci/rung/manager/store"
	"github.com/rungci/rung/manager/supply"
)

// openStore opens the records of jobs, in the state that is shared or in the folder.
func openStore(o Options) (*store.Store, error) {
	if o.Shared != nil {
		return store.Shared(o.Shared, o.Secret), nil
	}
	kept, err := store.Open(filepath.Join(o.State, JobsFolder), o.Secret)
	if err != nil && !errors.Is(err, store.ErrInUse) {
		err = &store.FolderError{Folder: o.State, Err: err}
	}
	return kept, err
}

// hasMachines reports whether a runner has left a fleet, whose machines may cost money.
func hasMachines(m *Manager) func(id string) bool {
	return func(id string) bool { return supply.Left(providers(m, id), m.o.Shared) }
}
