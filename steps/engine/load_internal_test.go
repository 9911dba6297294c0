//go:build unix

package engine

import (
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source"
)

func TestAComponentThatCannotBeFetchedForWantOfDiskSpaceSaysSo(t *testing.T) {
	t.Parallel()
	full := &fs.PathError{Op: "write", Path: "/tmp/func.yml", Err: syscall.ENOSPC}
	for code, err := range map[event.Code]error{
		event.CodeDiskFull:    &source.FetchError{What: "builtin://git/checkout", Err: fmt.Errorf("writing %q: %w", "func.yml", full)},
		event.CodeFetchFailed: &source.FetchError{What: "https://example.com", Err: syscall.ECONNREFUSED},
	} {
		if got := loadError(t.Context(), "x", err); got.Code != code || (got.Hint == event.HintDisk) != (code == event.CodeDiskFull) {
			t.Errorf("%v: %+v", err, got)
		}
	}
}
