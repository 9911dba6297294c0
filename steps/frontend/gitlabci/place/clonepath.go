package place

import (
	"path"
	"path/filepath"
	"strings"
)

// Folders are those that a job has before it chooses one for its files. Builds is the folder above Project, Temp that for files of the job.
type Folders struct {
	Project, Builds, Temp string
	// Shared says that they are on this machine, and written as its folders are.
	Shared bool
}

// Clone returns the folder for the job's files which GIT_CLONE_PATH asks for, expanded: one in Builds. What it may not be is in wrong, with
// what to do about it in hint.
func (in Folders) Clone(asked string) (folder, wrong, hint string) {
	clean, relative := path.Clean, func(folder string) (string, bool) {
		return strings.CutPrefix(folder, strings.TrimSuffix(in.Builds, "/")+"/")
	}
	if in.Shared {
		clean = filepath.Clean
		relative = func(folder string) (string, bool) {
			below, err := filepath.Rel(in.Builds, folder)
			return below, err == nil && below != "." && filepath.IsLocal(below)
		}
	}
	if folder = clean(asked); asked == "" || folder == clean(in.Project) {
		return in.Project, "", ""
	}
	below, inside := relative(folder)
	if !inside || below == ".." || strings.HasPrefix(below, "../") {
		return folder, "which is not in " + in.Builds, "begin it with $CI_BUILDS_DIR/"
	}
	if first, _, _ := strings.Cut(filepath.ToSlash(below), "/"); first == path.Base(filepath.ToSlash(in.Temp)) {
		return folder, "where the runner has files of the job", "choose another name"
	}
	return folder, "", ""
}
