package replay

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/trace"
)

// findProject finds the project whose files a job gets. It is the one around the current folder if that is at the recorded commit, else the
// recorded one, and on a machine without that the one around the current folder.
func (r *replaying) findProject(ctx context.Context, recorded *trace.Trace) error {
	env := recorded.Run.Environment
	if env == nil || env.Project == "" || r.isolation == inEnvironment {
		return nil
	}
	here, err := filepath.Abs(".")
	if err != nil {
		return exit.Coded(exit.System, "%v", err)
	}
	around := projectAround(here)
	info, err := os.Stat(env.Project)
	switch {
	case err != nil || !info.IsDir():
		r.project = around
		r.notes = append(r.notes, "the project of the recorded run, "+env.Project+", does not exist here: its files are those of "+around)
	case around != env.Project && recorded.Run.Identity != nil && r.isAt(ctx, around, recorded.Run.Identity.Commit):
		r.project = around
	default:
		r.project = env.Project
	}
	return nil
}

// projectAround is the folder of the work tree that a folder is in, or the folder itself.
func projectAround(dir string) string {
	for above := dir; ; above = filepath.Dir(above) {
		if _, err := os.Lstat(filepath.Join(above, ".git")); err == nil {
			return above
		}
		if filepath.Dir(above) == above {
			return dir
		}
	}
}

// isAt reports whether a commit is checked out in a folder.
func (r *replaying) isAt(ctx context.Context, dir, commit string) bool {
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil || commit == "" {
		return false
	}
	found, err := repository.Open(ctx, dir, r.Program.Env)
	return err == nil && found.SHA() == commit
}

// ownProgram makes the folder in PATH in which a job finds this program, where the recorded run had one.
func (r *replaying) ownProgram(recorded *trace.Trace) (remove func(), err error) {
	env := recorded.Run.Environment
	if env == nil || env.Programs == "" || !onThisMachine(env) {
		return func() {}, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, exit.Coded(exit.System, "finding this program: %v", err)
	}
	if r.programs, err = engine.MakeFolderFor("replay-"); err != nil {
		return nil, exit.Coded(exit.System, "making a folder for this program: %v", err)
	}
	name := "step-runner"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if err := os.Symlink(self, filepath.Join(r.programs, name)); err != nil {
		engine.RemoveFolder(r.programs)
		return nil, exit.Coded(exit.System, "making this program available to the job: %v", err)
	}
	return func() { engine.RemoveFolder(r.programs) }, nil
}

// filesHere are the files that were brought to the recorded run, as they are in the project of this one.
func (r *replaying) filesHere(described *event.Environment) []event.File {
	files := slices.Clone(described.Files)
	for i := range files {
		if described.Project != "" && r.project != "" {
			files[i].From = trace.ReplacePath(files[i].From, described.Project, r.project)
		}
	}
	return files
}

// place describes the environment of the new run: that of the recorded one, as it was made again; nil where it was not.
func (r *replaying) place(recorded *trace.Trace) *event.Environment {
	was := recorded.Run.Environment
	if was == nil || r.options.Changed || r.isolation == "none" && !onThisMachine(was) {
		return nil
	}
	place := *was
	place.Prepared = nil
	if r.project != "" {
		place.Project = r.project
	}
	if r.programs != "" {
		place.Programs = r.programs
	}
	place.Files = r.filesHere(was)
	for i := range place.Files {
		if recorded.Run.FreshWorkDir && r.WorkDir != "" {
			place.Files[i].To = trace.ReplacePath(place.Files[i].To, filepath.ToSlash(recorded.Run.WorkDir), filepath.ToSlash(r.WorkDir))
		}
	}
	return &place
}
