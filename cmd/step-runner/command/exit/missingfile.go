package exit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rungci/rung/steps/diag"
)

// SimilarFile is a file or folder whose path is one typo away from that of a missing one; "" if none is.
func SimilarFile(missing string) string {
	dir, name := filepath.Split(missing)
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil || name == "" {
		return ""
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	if near := diag.Suggest(name, names); near != "" {
		return dir + near
	}
	return ""
}

// missingFileHint says what to do about a file that does not exist, if that is what is wrong.
func missingFileHint(err error) string {
	var of *fs.PathError
	if !errors.As(err, &of) || !errors.Is(of, fs.ErrNotExist) {
		return ""
	}
	near := SimilarFile(of.Path)
	switch {
	case near != "":
		return "did you mean " + near + "?"
	case !filepath.IsAbs(of.Path):
		return "correct the path; a relative one starts in the current folder"
	}
	return ""
}
