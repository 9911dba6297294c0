package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/event"
)

const (
	// excludesName is the file beside the project that has the user's own patterns of what Git ignores.
	excludesName = "git-excludes"
	// maxExcludes bounds it, in bytes.
	maxExcludes = 1 << 20
)

// Excludes returns the file with the user's own patterns of what Git ignores as one that is brought to a job on this machine, and its path
// there: a replay has no other way to know them, on a machine of somebody who ignores something else. file may be "".
func Excludes(layout executor.Layout, file string) (texts []event.File, path string, err error) {
	if file == "" {
		return nil, "", nil
	}
	in, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // as Git does
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxExcludes+1))
	if err != nil {
		return nil, "", fmt.Errorf("reading what Git ignores: %w", err)
	}
	if len(text) > maxExcludes {
		return nil, "", fmt.Errorf("%s (core.excludesFile) has more than %d bytes", file, maxExcludes)
	}
	path = filepath.Join(layout.Temp, excludesName)
	return []event.File{{To: filepath.ToSlash(path), Text: string(text)}}, path, nil
}
