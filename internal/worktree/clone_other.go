//go:build !linux && !darwin

package worktree

import (
	"os"
	"sync/atomic"
)

func clonePath(_, _ string, _ *atomic.Bool) (bool, error) { return false, nil }

func cloneFile(_, _ *os.File, _ *atomic.Bool) bool { return false }
