// Package gitserver serves the work tree of a folder over Git's smart HTTP protocol, as it is: what is not committed becomes a commit of its own.
//
// The repository that it serves is a temporary one, which borrows the objects of the folder's. Nothing is written to the folder: no object,
// no ref, and not its index.
//
//	folder ──> Snapshot ──> commit ──> refs/pipelines/1, refs/heads/BRANCH of the temporary repository ──> ServeHTTP ──> git fetch
//
// Source: Git's gitprotocol-http.
package gitserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rungci/rung/internal/gitquery"
)

// Repository is the temporary repository. Its methods are safe for concurrent use.
type Repository struct {
	folder string // whose work tree it is
	own    string // Git's folder of that; "" where there is none
	dir    string // of the temporary repository
	format string // sha1 or sha256
	env    []string

	mu sync.Mutex // one snapshot at a time
}

// Options say what is served.
type Options struct {
	// Folder is the top of a work tree, or a folder that is in no repository.
	Folder string
	// Git says whether there is a repository; ObjectFormat is its, sha1 or sha256.
	Git          bool
	ObjectFormat string
	// Dir is where the temporary repository is made, a folder that does not exist.
	Dir string
	// Env is the environment that git runs in.
	Env []string
}

// ErrNoGit says that there is no git program.
var ErrNoGit = errors.New("there is no git program, which jobs need to get their sources")

// New makes the temporary repository.
func New(ctx context.Context, o Options) (*Repository, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, ErrNoGit
	}
	r := &Repository{folder: o.Folder, dir: o.Dir, format: o.ObjectFormat, env: cleanEnv(o.Env)}
	if r.format == "" {
		r.format = "sha1"
	}
	if _, err := r.git(ctx, nil, "", "init", "--quiet", "--bare", "--template=", "--object-format="+r.format, r.dir); err != nil {
		return nil, err
	}
	if !o.Git {
		return r, nil
	}
	for _, part := range []struct{ of, to string }{{"objects", ""}, {"shallow", "shallow"}} {
		path, err := r.git(ctx, nil, r.folder, "rev-parse", "--path-format=absolute", "--git-path", part.of)
		if err != nil {
			return nil, err
		}
		if part.to == "" {
			if err := r.borrow(path); err != nil {
				return nil, err
			}
			continue
		}
		if err := copyFile(path, filepath.Join(r.dir, part.to)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	own, err := r.git(ctx, nil, r.folder, "rev-parse", "--absolute-git-dir")
	r.own = own
	return r, err
}

// cleanEnv is an environment in which git looks at nothing but what it is told to.
func cleanEnv(env []string) []string {
	out := []string{"LC_ALL=C"}
	for _, pair := range env {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "GIT_") && name != "LC_ALL" {
			out = append(out, pair)
		}
	}
	return gitquery.Environment(out)
}

// borrow lets the repository use the objects of another one.
func (r *Repository) borrow(objects string) error {
	info := filepath.Join(r.dir, "objects", "info")
	if err := os.MkdirAll(info, 0o755); err != nil {
		return err
	}
	if strings.ContainsAny(objects, "\n") {
		return fmt.Errorf("the path of the repository has a line break: %q", objects)
	}
	return os.WriteFile(filepath.Join(info, "alternates"), []byte(objects+"\n"), 0o644)
}

// Snapshot is the work tree as a commit.
type Snapshot struct {
	Commit string
	// Changed says that the work tree is not what is checked out: Commit is one that only the temporary repository has.
	Changed bool
}

const (
	stateFolder = ".rung"                       // what local runs keep: left out of a snapshot, unless Git tracks it
	sourcesFile = stateFolder + "/sources.toml" // a setting of the project in it
)

// Snapshot makes a commit of the work tree, and the refs of a pipeline: its own, those of the folder's repository, and branch or tag, which are
// where the pipeline is. Both may be empty.
func (r *Repository) Snapshot(ctx context.Context, pipeline int, branch, tag string) (*Snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	index, err := r.index(ctx)
	if err != nil {
		return nil, err
	}
	defer os.Remove(index)
	env := []string{"GIT_INDEX_FILE=" + index, "GIT_OBJECT_DIRECTORY=" + filepath.Join(r.dir, "objects"), "GIT_WORK_TREE=" + r.folder, "GIT_DIR=" + r.dir}
	if r.own != "" { // its own patterns of what to ignore, and its filters
		env = append(env, "GIT_DIR="+r.own)
	}
	quiet := []string{"-c", "core.splitIndex=false", "-c", "core.untrackedCache=false", "-c", "advice.addEmbeddedRepo=false", "-c", "core.bare=false"}
	if _, err := r.git(ctx, env, r.folder, append(quiet, "add", "--all", "--", ".", ":(exclude,top)"+stateFolder)...); err != nil {
		return nil, fmt.Errorf("making a commit of the work tree: %w", err)
	}
	if err := r.addState(ctx, env, quiet); err != nil {
		return nil, fmt.Errorf("making a commit of the work tree: %w", err)
	}
	tree, err := r.git(ctx, env, r.folder, append(quiet, "write-tree")...)
	if err != nil {
		return nil, fmt.Errorf("making a commit of the work tree: %w", err)
	}
	out := &Snapshot{}
	head := r.head(ctx)
	if head != "" {
		committed, err := r.git(ctx, nil, r.folder, "rev-parse", "--verify", head+"^{tree}")
		if err != nil {
			return nil, err
		}
		out.Commit, out.Changed = head, committed != tree
	}
	if head == "" || out.Changed {
		if out.Commit, err = r.commit(ctx, env, tree, head); err != nil {
			return nil, err
		}
		out.Changed = true
	}
	return out, r.setRefs(ctx, out.Commit, pipeline, branch, tag)
}

// addState adds what belongs to the project in the folder of local runs.
func (r *Repository) addState(ctx context.Context, env, options []string) error {
	info, err := os.Lstat(filepath.Join(r.folder, stateFolder))
	if err != nil {
		return nil
	}
	if _, err := r.git(ctx, env, r.folder, append(options, "add", "--update", ".")...); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(r.folder, sourcesFile)); err != nil || !info.IsDir() { // git takes nothing from beyond a link
		return nil
	}
	_, err = r.git(ctx, env, r.folder, append(options, "add", "--force", "--", sourcesFile)...)
	return err
}

// index is a copy of the index, which knows what has not changed: to read all files again would take long. It is a new file.
func (r *Repository) index(ctx context.Context) (string, error) {
	name := filepath.Join(r.dir, "snapshot.index")
	if r.own == "" {
		return name, nil
	}
	path, err := r.git(ctx, nil, r.folder, "rev-parse", "--path-format=absolute", "--git-path", "index")
	if err != nil {
		return "", err
	}
	if err := copyFile(path, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return name, nil
}

// head is the commit that is checked out; "" where there is none.
func (r *Repository) head(ctx context.Context) string {
	if r.own == "" {
		return ""
	}
	head, err := r.git(ctx, nil, r.folder, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
	if err != nil {
		return ""
	}
	return head
}

// commit makes a commit of a tree, by nobody in particular.
func (r *Repository) commit(ctx context.Context, env []string, tree, parent string) (string, error) {
	args := []string{"-c", "commit.gpgSign=false", "commit-tree", tree, "-m", "The work tree as it is, with what is not committed"}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	who := []string{
		"GIT_AUTHOR_NAME=Rung", "GIT_AUTHOR_EMAIL=rung@localhost", "GIT_COMMITTER_NAME=Rung", "GIT_COMMITTER_EMAIL=rung@localhost",
	}
	return r.git(ctx, append(who, env...), r.folder, args...)
}

// setRefs makes the refs that runners fetch.
func (r *Repository) setRefs(ctx context.Context, commit string, pipeline int, branch, tag string) error {
	var all bytes.Buffer
	if r.own != "" {
		refs, err := r.git(ctx, nil, r.folder, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags")
		if err != nil {
			return err
		}
		for line := range strings.Lines(refs) {
			object, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			if name != "" && name != "refs/heads/"+branch && name != "refs/tags/"+tag {
				fmt.Fprintf(&all, "update %s %s\n", name, object)
			}
		}
	}
	fmt.Fprintf(&all, "update refs/pipelines/%d %s\n", pipeline, commit)
	switch {
	case tag != "":
		fmt.Fprintf(&all, "update refs/tags/%s %s\n", tag, commit)
	case branch != "":
		fmt.Fprintf(&all, "update refs/heads/%s %s\n", branch, commit)
	}
	cmd := r.command(ctx, []string{"GIT_DIR=" + r.dir}, "", "update-ref", "--stdin")
	cmd.Stdin = &all
	if _, err := output(cmd); err != nil {
		return err
	}
	if branch != "" {
		_, err := r.git(ctx, []string{"GIT_DIR=" + r.dir}, "", "symbolic-ref", "HEAD", "refs/heads/"+branch)
		return err
	}
	return nil
}

// git runs git in a folder and returns its output.
func (r *Repository) git(ctx context.Context, env []string, dir string, args ...string) (string, error) {
	return output(r.command(ctx, env, dir, args...))
}

func (r *Repository) command(ctx context.Context, env []string, dir string, args ...string) *exec.Cmd {
	command := append(gitquery.Command("-c", "gc.auto=0", "-c", "maintenance.auto=false"), args...)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(append([]string(nil), r.env...), env...)
	return cmd
}

// output runs a command; the error has what it said.
func output(cmd *exec.Cmd) (string, error) {
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
