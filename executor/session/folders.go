package session

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/shellword"
)

// GitCeiling is the variable that keeps Git from looking for a repository above a folder: a project without one is copied to where
// somebody else's may be around it.
const GitCeiling = "GIT_CEILING_DIRECTORIES"

// Above is the folder that the project's is in.
func Above(layout executor.Layout) string {
	if layout.Shared {
		return filepath.Dir(layout.Project)
	}
	return path.Dir(layout.Project)
}

// WhereKept says where the files of a job are that was kept, and how to look at them.
func WhereKept(layout executor.Layout) string {
	if layout.Shared || layout.Name == "" {
		return "its folder is kept: " + layout.Project
	}
	return fmt.Sprintf("its container is kept, stopped: %s (docker cp %s:%s . copies its files; docker rm %s, docker volume rm %s remove it)",
		layout.Name, layout.Name, shellword.Of(layout.Project), layout.Name, layout.Name)
}

// EnvironmentID is the name of a job's environment: letters, digits and dashes, no two alike.
func EnvironmentID(job string, id int64) string {
	const most = 24
	slug := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(job))
	slug = strings.Trim(slug, "-")
	return strings.Trim(fmt.Sprintf("%s-%d", slug[:min(len(slug), most)], id), "-")
}

// BaseEnv is the environment of every step, beyond what it has by itself: the program step-runner is found by its name.
func BaseEnv(layout executor.Layout) map[string]string {
	env := map[string]string{}
	maps.Copy(env, layout.Env)
	if layout.Shared && layout.Bin != "" {
		env["PATH"] = layout.Bin + string(os.PathListSeparator) + os.Getenv("PATH")
	}
	return env
}
