package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/internal/gitquery"
	"github.com/rungci/rung/internal/process"
)

// stopGrace is how long git has to end when the copy is stopped.
const stopGrace = time.Second

// maxComplaint bounds how much of git's standard error is in an error, in bytes.
const maxComplaint = 4 << 10

// elsewhere are the variables by which git would look at another repository than that of its folder.
var elsewhere = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
	"GIT_NAMESPACE", "GIT_PREFIX", "GIT_LITERAL_PATHSPECS", "GIT_TRACE", "GIT_TRACE_SETUP",
}

// gitEnv is the environment of git. It must not write to the user's repository, not even to refresh the index.
func gitEnv(env []string) []string {
	if env == nil {
		env = os.Environ()
	}
	out := slices.DeleteFunc(slices.Clone(env), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.Contains(elsewhere, name)
	})
	return gitquery.Environment(out)
}

// list returns the names of all files of a work tree, tracked or not, that Git does not ignore, with slashes, in order, but for records. Those of
// repositories inside end in a slash, or are folders. A name can be of a file that is not there any more.
func (c *copying) list(dir, rel string) ([]string, error) {
	if c.ignored {
		names, err := c.walk(dir, rel)
		slices.Sort(names)
		return names, err
	}
	out, complaint := &bounded{limit: MaxListing}, &bounded{limit: maxComplaint, cut: true}
	args := gitquery.Command()
	if c.excludes != "" {
		args = append(args, "-c", "core.excludesFile="+c.excludes)
	}
	result, err := process.Run(c.ctx, nil, process.Spec{
		Args: append(args, "ls-files", "-t", "-z", "--cached", "--others", "--exclude-standard"),
		Dir:  dir, Env: c.env, Stdout: out, Stderr: complaint, Grace: stopGrace,
	})
	var output *process.OutputError
	var start *process.StartError
	switch {
	case errors.As(err, &start) && start.Path != "": // what the error of any program says to do is not all that is to be done
		return nil, fmt.Errorf("listing the files of %s: there is no git in PATH, %s; install git: it knows what the project ignores", dir, start.Path)
	case errors.As(err, &output):
		return nil, fmt.Errorf("listing the files of %s: more than %d bytes of names", dir, MaxListing)
	case err != nil:
		return nil, fmt.Errorf("listing the files of %s: %w", dir, err)
	case result.ExitCode != 0:
		return nil, fmt.Errorf("listing the files of %s: git failed with exit code %d%s: %s", dir, result.ExitCode, result.Signal, strings.TrimSpace(complaint.String()))
	}
	text := out.String()
	names := make([]string, 0, strings.Count(text, "\x00"))
	untracked := map[string]bool{}
	for entry := range strings.SplitSeq(text, "\x00") {
		if tag, name, ok := strings.Cut(entry, " "); ok {
			names = append(names, name)
			untracked[name] = tag == "?"
		}
	}
	// Git tells the files without a commit first, then the tracked ones, and those that are in conflict several times.
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > MaxFiles {
		return nil, fmt.Errorf("%s has more than %d files", dir, MaxFiles)
	}
	if rel == "" {
		linked := isLink(filepath.Join(dir, stateFolder))
		names = slices.DeleteFunc(names, func(name string) bool { return (untracked[name] || linked) && isState(name) })
	}
	return withoutRecords(dir, names, untracked), nil
}

// isState reports whether a name in a project is of our own state there, if it is not tracked. A link to a folder elsewhere is, in any case: with a
// copy of it, a job would write to the state itself.
func isState(name string) bool {
	return name != sourcesFile && (name == stateFolder || strings.HasPrefix(name, stateFolder+"/"))
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// folder copies a folder that is not a work tree, with all that is in it.
func (c *copying) folder(from, to, rel string, depth int) error {
	names, err := c.walk(from, rel)
	if err != nil {
		return err
	}
	if rel == "" && !c.ignored { // without Git nobody knows what belongs to the project; what a run was told to write is usually beside it
		names = withoutRecords(from, names, atTop(names))
	}
	return c.files(from, to, rel, depth, names)
}

// atTop are the names that are not in a folder.
func atTop(names []string) map[string]bool {
	top := map[string]bool{}
	for _, name := range names {
		top[name] = !strings.Contains(name, "/")
	}
	return top
}

// walk returns the names of all files and folders in a folder, those of folders with a slash behind them; not what is in repositories inside.
func (c *copying) walk(from, rel string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it was removed meanwhile
			}
			return err
		}
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
		if path == from {
			return nil
		}
		if path == c.to || entry.Name() == ".git" {
			return skip(entry)
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if rel == "" && name == stateFolder {
			if !entry.IsDir() {
				return nil
			}
			if _, err := os.Lstat(filepath.Join(from, sourcesFile)); err == nil {
				names = append(names, stateFolder+"/", sourcesFile)
			}
			return fs.SkipDir
		}
		if entry.IsDir() {
			if isRepository(path) {
				names = append(names, name+"/")
				return fs.SkipDir
			}
			names = append(names, name+"/")
			return nil
		}
		if names = append(names, name); len(names) > MaxFiles {
			return fmt.Errorf("%s has more than %d files", from, MaxFiles)
		}
		return nil
	})
	return names, err
}

func skip(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// bounded keeps what is written to it, up to a limit; beyond it, a write fails, or is forgotten where it may be cut.
type bounded struct {
	bytes.Buffer
	limit int
	cut   bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.limit - b.Len(); len(p) > room {
		if !b.cut {
			return 0, errors.New("too long")
		}
		b.Buffer.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}
