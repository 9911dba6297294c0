package manager

import (
	"context"
	"errors"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/ledger"
	"github.com/rungci/rung/manager/config"
)

// Nobody goes on with the jobs of a manager whose state folder ends with it, so that the next one on this machine removes what it left, whatever its state folder.
func TestWhatAFreshManagerLeavesIsForTheNextOne(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	folder, err := ledger.Folder()
	if err != nil {
		t.Fatal(err)
	}
	for _, fresh := range []bool{true, false} {
		var got executor.Setup
		m, err := New(Options{
			Config: &config.Config{Concurrent: 1}, State: t.TempDir(), Fresh: fresh,
			Open: func(_ context.Context, _ *config.Runner, _ executor.Level, setup executor.Setup) (executor.Executor, error) {
				got = setup
				return nil, errors.New("it is not opened")
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.store.Close)
		_, _ = m.levels.make(t.Context(), &config.Runner{}, executor.None)
		if (got.Lease == executor.Lease{}) != fresh || (got.State == folder) != fresh {
			t.Errorf("fresh: %t: the lease is %+v, and the ledgers are in %s", fresh, got.Lease, got.State)
		}
	}
}
