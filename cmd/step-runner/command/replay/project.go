package replay

import (
	"context"
	"os"
	"path"
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

// freshFolder gives a run that began in an empty work directory one again, unless --work-dir names another: what is in the current
// folder is not what it worked on.
func (r *replaying) freshFolder(recorded *trace.Trace) (clean func(), err error) {
	if r.WorkDir != "" || !recorded.Run.FreshWorkDir {
		return func() {}, nil
	}
	parent, err := engine.MakeFolderFor("replay-")
	if err != nil {
		return nil, exit.Coded(exit.System, "making a folder for the replay: %v", err)
	}
	r.fresh = parent
	r.WorkDir = filepath.Join(parent, filepath.Base(recorded.Run.WorkDir)) // some jobs look at the name
	if err := os.Mkdir(r.WorkDir, 0o755); err != nil {
		engine.RemoveFolder(parent)
		return nil, exit.Coded(exit.System, "making a folder for the replay: %v", err)
	}
	return func() { engine.RemoveFolder(parent) }, nil
}

// variableFiles writes the files of variables to a folder that replaces that of the recorded run. It is beside a fresh work directory.
func (r *replaying) variableFiles(recorded *trace.Trace) (remove func(), err error) {
	env := recorded.Run.Environment
	if env == nil || r.isolation == inEnvironment {
		return func() {}, nil
	}
	files, err := r.filledFiles(&recorded.Run)
	if err != nil || env.VariableFolder() == "" {
		return func() {}, err
	}
	parent := r.fresh
	if parent == "" {
		parent, err = engine.MakeFolderFor("replay-")
	}
	remove = func() { engine.RemoveFolder(parent) }
	if err == nil {
		r.files = filepath.Join(parent, path.Base(env.VariableFolder()))
		err = os.Mkdir(r.files, 0o700)
	}
	if err != nil {
		remove()
		return nil, exit.Coded(exit.System, "making a folder for the files of variables: %v", err)
	}
	for _, f := range files {
		if path.Dir(f.To) != env.VariableFolder() || f.From != "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(r.files, path.Base(f.To)), []byte(f.Text), 0o600); err != nil {
			remove()
			return nil, exit.Coded(exit.System, "writing the file of the variable %s: %v", f.Name, err)
		}
	}
	return remove, nil
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
		if folder := was.VariableFolder(); r.files != "" && folder != "" {
			place.Files[i].To = trace.ReplacePath(place.Files[i].To, folder, filepath.ToSlash(r.files))
		}
		if recorded.Run.FreshWorkDir && r.WorkDir != "" {
			place.Files[i].To = trace.ReplacePath(place.Files[i].To, filepath.ToSlash(recorded.Run.WorkDir), filepath.ToSlash(r.WorkDir))
		}
	}
	return &place
}
