package repository

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/semver"

	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/internal/worktree"
)

// shortSHA is how many digits GitLab shows of a commit's name.
const shortSHA = 8

// longTitle is the length, in characters, from which GitLab shows the whole message as the description of a commit.
const longTitle = 100

// newRepository is what is known without git.
func newRepository(dir string, env []string) (*Repository, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the project: %w", err)
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, fmt.Errorf("opening the project: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("opening the project: %s is not a folder", root)
	}
	return &Repository{
		Root: root, ObjectFormat: "sha1", env: gitEnvironment(env), User: systemUser(env),
		branches: map[string]bool{}, changes: map[string][]string{}, texts: map[string]string{},
	}, nil
}

// systemUser is who the environment says that the user is.
func systemUser(env []string) User {
	u := User{Login: "local"}
	for _, name := range []string{"USERNAME", "LOGNAME", "USER"} { // the last one that is set counts
		for _, v := range env {
			if value, ok := strings.CutPrefix(v, name+"="); ok && value != "" {
				u.Login = value
			}
		}
	}
	u.Name = u.Login
	return u
}

// answer is what git printed.
type answer struct {
	text string
	err  error
}

// answers are those to the questions that Open asks.
type answers struct{ places, commit, config answer }

// opening is a repository about which git is being asked.
type opening struct{ *Repository }

// ask asks all questions at the same time: each process takes two to three milliseconds, so there are few.
func (r opening) ask(ctx context.Context) *answers {
	var a answers
	var wg sync.WaitGroup
	for _, q := range []struct {
		to   *answer
		args []string
	}{
		{&a.commit, []string{"log", "-1", "--no-show-signature", "--no-color", "--decorate-refs=refs/tags/", "--encoding=UTF-8",
			"--format=%H%x00%P%x00%an%x00%ae%x00%cI%x00%D%x00%B"}},
		{&a.places, []string{"rev-parse", "--show-object-format", "--is-shallow-repository", "--show-toplevel",
			"--symbolic-full-name", "HEAD", "--branches", "refs/remotes/origin/HEAD"}},
		{&a.config, []string{"config", "--list", "-z"}},
	} {
		wg.Go(func() { q.to.text, q.to.err = r.git(ctx, q.args...) })
	}
	wg.Wait()
	return &a
}

// take makes the answers facts.
func (r opening) take(ctx context.Context, a *answers) {
	config := parseConfig(a.config.text)
	if !r.takePlaces(ctx, a.places) {
		r.withoutGit(a.places.err)
		if a.config.err == nil && !r.Git {
			r.takeUser(config)
		}
		r.takeProject()
		return
	}
	r.takeUser(config)
	r.takeExcludes(config)
	r.takeCommit(a.commit)
	r.takeRemote(config)
	r.takeDefaultBranch(ctx, config)
	r.takeProject()
	r.noteLayout()
}

// takePlaces reads where the repository is and what is checked out. It reports false where there is none to be asked.
//
// Git prints the format, whether the history is shallow, the root (a name that may hold line breaks), the full names of what HEAD
// is and of all branches, and at last the branch that origin/HEAD is, or that name itself where it is none. Without a commit it
// stops at HEAD.
func (r opening) takePlaces(ctx context.Context, a answer) bool {
	lines := strings.Split(strings.TrimSuffix(a.text, "\n"), "\n")
	end := len(lines)
	for end > 0 && (lines[end-1] == "HEAD" || strings.HasPrefix(lines[end-1], "refs/")) {
		end--
	}
	const before = 2
	names := lines[end:]
	if a.err != nil && !failed(a.err) || end <= before || len(names) == 0 {
		return false
	}
	root := filepath.FromSlash(strings.Join(lines[before:end], "\n"))
	if !filepath.IsAbs(root) {
		return false
	}
	r.Git, r.Root = true, root
	r.ObjectFormat, r.Shallow = lines[0], lines[1] == "true"
	if len(names) == 1 { // no commit yet: HEAD is the name of a branch that does not exist
		unborn, _ := r.question(ctx, "symbolic-ref", "-q", "HEAD")
		r.Branch = strings.TrimPrefix(unborn, "refs/heads/")
		list, _ := r.question(ctx, "for-each-ref", "--format=%(refname)", "refs/heads")
		names = append(names, strings.Fields(list)...)
		r.originHead, _ = r.question(ctx, "symbolic-ref", "-q", "refs/remotes/origin/HEAD")
	} else {
		r.Branch, _ = strings.CutPrefix(names[0], "refs/heads/")
		if names[0] == "HEAD" {
			r.Branch = ""
		}
		r.originHead = names[len(names)-1]
	}
	for _, name := range names[1:] {
		if branch, ok := strings.CutPrefix(name, "refs/heads/"); ok {
			r.branches[branch] = true
		}
	}
	return true
}

// takeCommit reads the commit that is checked out.
func (r opening) takeCommit(a answer) {
	fields := strings.SplitN(strings.TrimSuffix(a.text, "\n"), "\x00", 7)
	if a.err != nil || len(fields) != 7 {
		if why := "the repository has no commits"; a.err == nil || r.Branch != "" {
			r.note(why + ": CI_COMMIT_SHA is all zeros")
		} else {
			r.note("cannot read the checked-out commit (" + a.err.Error() + "): CI_COMMIT_SHA is all zeros")
		}
		return
	}
	for i := range fields {
		fields[i] = strings.ToValidUTF8(fields[i], "\uFFFD")
	}
	c := &Commit{SHA: fields[0], ShortSHA: fields[0][:min(shortSHA, len(fields[0]))], Author: fields[2] + " <" + fields[3] + ">"}
	c.Parent, _, _ = strings.Cut(fields[1], " ")
	c.Timestamp, _ = time.Parse(time.RFC3339, fields[4])
	c.setMessage(fields[6])
	for decoration := range strings.SplitSeq(fields[5], ", ") {
		if tag, ok := strings.CutPrefix(decoration, "tag: "); ok {
			r.Tags = append(r.Tags, strings.TrimPrefix(tag, "refs/tags/"))
		}
	}
	slices.SortFunc(r.Tags, newerTag)
	r.Commit = c
}

// setMessage divides a message as GitLab does.
func (c *Commit) setMessage(message string) {
	c.Message = message
	title, rest, _ := strings.Cut(message, "\n")
	c.Title, c.Description = title, strings.TrimSuffix(rest, "\n")
	if len([]rune(title)) >= longTitle {
		c.Description = message
	}
}

// newerTag sorts tags: the highest version first, what is not a version last.
func newerTag(a, b string) int {
	va, vb := versionOf(a), versionOf(b)
	if order := semver.Compare(vb, va); order != 0 {
		return order
	}
	return strings.Compare(a, b)
}

func versionOf(tag string) string { return "v" + strings.TrimPrefix(tag, "v") }

// takeUser reads who the user is.
func (r opening) takeUser(config config) {
	if name := config.last("user.name"); name != "" {
		r.User.Name = name
	}
	r.User.Email = config.last("user.email")
}

// takeExcludes finds the user's own file of what Git ignores: where the configuration says, or else where Git looks by itself.
func (r opening) takeExcludes(config config) {
	file := config.last("core.excludesfile")
	home := r.variable("HOME")
	switch rest, inHome := strings.CutPrefix(file, "~/"); {
	case inHome:
		file = filepath.Join(home, filepath.FromSlash(rest))
	case file != "" && !filepath.IsAbs(file):
		file = filepath.Join(r.Root, filepath.FromSlash(file))
	case file != "":
	case r.variable("XDG_CONFIG_HOME") != "":
		file = filepath.Join(r.variable("XDG_CONFIG_HOME"), "git", "ignore")
	case home != "":
		file = filepath.Join(home, ".config", "git", "ignore")
	}
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
		r.Excludes = file
	}
}

// variable is the value of a variable of the environment that git runs in, the last one that counts; "" when there is none.
func (r *Repository) variable(name string) string {
	for _, v := range slices.Backward(r.env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// takeRemote finds the remote that stands for the project's GitLab: origin, or that of the branch, or the first one.
func (r opening) takeRemote(config config) {
	remotes := config.remotes()
	name := config.last("branch." + r.Branch + ".remote")
	r.upstream = name != "" && config.last("branch."+r.Branch+".merge") != ""
	if slices.Contains(remotes, "origin") {
		name = "origin"
	} else if !slices.Contains(remotes, name) {
		if len(remotes) == 0 {
			return
		}
		name = remotes[0]
	}
	r.Remote = name
	r.setRemoteURL(config.rewrite(config.first("remote." + name + ".url")))
}

// takeDefaultBranch finds out which branch is the default one.
func (r opening) takeDefaultBranch(ctx context.Context, config config) {
	head := r.originHead
	if r.Remote != "origin" {
		head = ""
	}
	if r.Remote != "" && r.Remote != "origin" {
		head, _ = r.question(ctx, "symbolic-ref", "-q", "refs/remotes/"+r.Remote+"/HEAD")
	}
	branch, ok := strings.CutPrefix(head, "refs/remotes/"+r.Remote+"/")
	if ok && branch != "" && branch != "HEAD" {
		r.DefaultBranch = branch
		return
	}
	r.guessDefaultBranch(config.last("init.defaultbranch"))
}

// guessDefaultBranch is for repositories that do not know the default branch of their remote.
func (r opening) guessDefaultBranch(initial string) {
	how := "no remote defines the default branch"
	if r.Remote != "" {
		how = fmt.Sprintf("%s/HEAD, which defines the default branch, is not set (git remote set-head %s --auto sets it)", r.Remote, r.Remote)
	}
	for _, name := range []string{initial, "main", "master"} {
		if name != "" && r.branches[name] {
			r.DefaultBranch = name
			r.note(how + ": assuming " + name)
			return
		}
	}
	switch {
	case len(r.branches) == 0 && r.Branch != "": // nothing is committed
		r.DefaultBranch = r.Branch
	case len(r.branches) == 1 && r.Branch != "":
		r.DefaultBranch = r.Branch
	case initial != "":
		r.DefaultBranch = initial
	default:
		r.DefaultBranch = "main"
	}
	r.note(how + ": assuming " + r.DefaultBranch)
}

// takeProject fills in what a remote did not say.
func (r opening) takeProject() {
	if r.DefaultBranch == "" {
		r.DefaultBranch = "main"
	}
	if r.Server.Host == "" {
		r.Server = Server{Protocol: "https", Host: "gitlab.com", Port: "443", SSHHost: "gitlab.com", SSHPort: "22"}
		if r.Git && r.RemoteURL == "" {
			r.note("the repository has no remote: CI_SERVER_HOST is " + r.Server.Host)
		} else if r.Git {
			r.note("the remote " + r.Remote + " is not on a server: CI_SERVER_HOST is " + r.Server.Host)
		}
	}
	if r.Project == "" {
		r.Project = Project("local/" + projectName(filepath.Base(r.Root)))
	}
}

// projectName makes a folder's name one that a project can have.
func projectName(folder string) string {
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
			return c
		}
		return '-'
	}, folder)
	if name = strings.Trim(name, "-."); name == "" {
		return "project"
	}
	return name
}

// noteLayout tells of repositories that are not what one may think.
func (r opening) noteLayout() {
	if r.Shallow {
		r.note("the history is shallow, so older commits are unknown (git fetch --unshallow fetches them)")
	}
	const maxLink = 64 << 10 // bytes; the file holds one path
	file := filepath.Join(r.Root, ".git")
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() || info.Size() > maxLink {
		return
	}
	if text, err := os.ReadFile(file); err == nil && strings.Contains(filepath.ToSlash(string(text)), "/modules/") {
		r.note("this is a submodule: the pipeline runs for the submodule, not for the repository around it")
	}
}

// withoutGit fills in what can be read without git.
func (r opening) withoutGit(err error) {
	var start *process.StartError
	var refused *worktree.RefusedError
	switch {
	case errors.As(err, &refused):
		r.note("this Git repository is not read: " + err.Error())
	case errors.As(err, &start):
		r.readFolder()
		_, folder := findFolder(r.Root)
		r.NoGit = folder != "" && errors.Is(err, process.ErrNotFound)
		if r.Branch != "" || r.Commit != nil {
			r.note("git cannot be run (" + start.Reason + "): commit messages, tags and changes are unknown")
		} else {
			r.note("git cannot be run (" + start.Reason + "): commits are unknown")
		}
	case err != nil && strings.Contains(err.Error(), "not a git repository"):
		r.note("this is not a Git repository: the branch is main and CI_COMMIT_SHA is all zeros")
	case err != nil && strings.Contains(err.Error(), "dubious ownership"):
		r.note("git does not trust this repository because another user owns it; to trust it: git config --global --add safe.directory '" + r.Root + "'")
	case err != nil && strings.Contains(err.Error(), "work tree"):
		r.note("this repository has no work tree: run in one that has")
	case err != nil:
		r.note("git failed in this folder (" + err.Error() + "): commits are unknown")
	}
	if r.Branch == "" && r.Commit == nil {
		r.Branch = "main"
	}
}
