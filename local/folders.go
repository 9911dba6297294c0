package local

import (
	"fmt"
	"path"
	"path/filepath"

	"github.com/rungci/rung/executor"
)

// gitCeiling is the variable that keeps Git from looking for a repository above a folder: a project without one is copied to where
// somebody else's may be around it.
const gitCeiling = "GIT_CEILING_DIRECTORIES"

// above is the folder that the project's is in.
func above(layout executor.Layout) string {
	if layout.Shared {
		return filepath.Dir(layout.Project)
	}
	return path.Dir(layout.Project)
}

// whereKept says where the files of a job are that was kept, and how to look at them.
func whereKept(layout executor.Layout) string {
	if layout.Shared || layout.Name == "" {
		return "its folder is kept: " + layout.Project
	}
	return fmt.Sprintf("its container is kept, stopped: %s (docker cp %s:%s . copies its files; docker rm %s, docker volume rm %s remove it)",
		layout.Name, layout.Name, layout.Project, layout.Name, layout.Name)
}
