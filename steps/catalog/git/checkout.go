// Package git is the code of builtin://git/checkout: the files of a repository, at one commit, in a job's folder. It does what
// GitLab's runner does, in its order, with the git program of the environment; or by itself where there is none (see gitless).
//
// Credentials are in the environment of git alone: a credential helper, which is given on the command line and holds none itself,
// hands them to git for the one server they are for. They are in no file, no argument and no address, so that nothing that a job
// keeps, such as a cache of its folder, has them. Programs of the same user can see the environment of git while it runs.
package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/internal/worktree"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
	"github.com/rungci/rung/steps/catalog/transfer"
	"github.com/rungci/rung/steps/source/git/clone"
	"github.com/rungci/rung/steps/value"
)

// Limits of how often it is tried, and the pauses in between, which double.
const (
	maxAttempts = 10
	firstPause  = time.Second
	longPause   = 30 * time.Second
)

// tlsTimeout is how long a server may take to agree on a connection.
const tlsTimeout = 15 * time.Second

// strategies of how the files come.
const (
	strategyFetch = "fetch"
	strategyClone = "clone"
	strategyNone  = "none"
	strategyEmpty = "empty"
)

// inputs are those of func.yml.
type inputs struct {
	URL          string   `json:"url"`
	Username     string   `json:"username"`
	Token        string   `json:"token"`
	WorkTree     string   `json:"work_tree"`
	ExcludesFile string   `json:"excludes_file"`
	Tracking     string   `json:"tracking"`
	Ignored      bool     `json:"ignored"`
	Path         string   `json:"path"`
	SHA          string   `json:"sha"`
	Ref          string   `json:"ref"`
	Refspecs     []string `json:"refspecs"`
	ObjectFormat string   `json:"object_format"`
	Strategy     string   `json:"strategy"`
	Checkout     bool     `json:"checkout"`
	Depth        count    `json:"depth"`
	CleanFlags   []string `json:"clean_flags"`
	FetchFlags   []string `json:"fetch_flags"`
	CloneFlags   []string `json:"clone_flags"`
	Submodules   string   `json:"submodules"`

	SubmodulePaths       []string `json:"submodule_paths"`
	SubmoduleDepth       count    `json:"submodule_depth"`
	SubmoduleUpdateFlags []string `json:"submodule_update_flags"`
	SubmoduleForceHTTPS  bool     `json:"submodule_force_https"`

	LFSSkipSmudge bool   `json:"lfs_skip_smudge"`
	Attempts      count  `json:"attempts"`
	UserAgent     string `json:"user_agent"`
	CleanConfig   bool   `json:"clean_config"`
	SafeDirectory bool   `json:"safe_directory"`

	transfer.Certificates
}

// count is a whole number from 0.
type count int

// maxCount bounds a count: it is what git takes.
const maxCount = 1<<31 - 1

// UnmarshalJSON reads any way to write a number.
func (c *count) UnmarshalJSON(data []byte) error {
	var f float64
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	if f < 0 || f > maxCount || f != float64(int(f)) {
		return fmt.Errorf("%s is not a whole number from 0 to %d", data, maxCount)
	}
	*c = count(f)
	return nil
}

// Checkout is the code of builtin://git/checkout.
func Checkout(ctx context.Context, call *program.Call) error {
	var in inputs
	if err := call.Decode(&in); err != nil {
		return err
	}
	c, err := newCheckout(call, in)
	if err != nil {
		return err
	}
	sha, err := c.run(ctx)
	if err != nil {
		return c.explain(err)
	}
	return call.Output("sha", value.OfString(sha))
}

// checkout is one call.
type checkout struct {
	in      inputs
	call    *program.Call
	env     []string // of git, over that of the call
	folder  string   // absolute
	remote  remote
	scoped  []string                                        // the settings of every git command
	reused  bool                                            // the folder holds what an earlier job left
	again   bool                                            // which is a repository
	gitless *gitless                                        // what does the work where there is no git; nil where there is
	pause   func(ctx context.Context, d time.Duration) bool // reports whether to go on
}

func newCheckout(call *program.Call, in inputs) (*checkout, error) {
	c := &checkout{in: in, call: call, pause: pause}
	var err error
	if c.folder, err = folderOf(call.WorkDir, in.Path); err != nil {
		return nil, err
	}
	if c.remote, err = remoteOf(&in); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	c.env = append(c.remote.env(), "GIT_TERMINAL_PROMPT=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_LFS_SKIP_SMUDGE=1", "GIT_CEILING_DIRECTORIES="+filepath.Dir(c.folder))
	c.scoped = c.settings()
	return c, nil
}

// folderOf is where the files go. A relative path stays in the work directory.
func folderOf(workDir, path string) (string, error) {
	switch {
	case path == "":
		return filepath.Clean(workDir), nil
	case filepath.IsAbs(path):
		if path = filepath.Clean(path); path == filepath.Dir(path) {
			return "", fmt.Errorf("path: %s is the whole file system", path)
		}
		return path, nil
	case !filepath.IsLocal(path):
		return "", fmt.Errorf("path: %s leaves the work directory", path)
	}
	return filepath.Join(workDir, path), nil
}

// check refuses what git would take for something else.
func (c *checkout) check() error {
	in := &c.in
	if in.SHA != "" && !isCommit(in.SHA) {
		return fmt.Errorf("sha: %q is not a commit: it has hexadecimal digits only", in.SHA)
	}
	if strings.HasPrefix(in.Ref, "-") {
		return fmt.Errorf("ref: %q is not the name of a branch or tag", in.Ref)
	}
	for _, spec := range in.Refspecs {
		if spec == "" || strings.HasPrefix(spec, "-") {
			return fmt.Errorf("refspecs: %q is none", spec)
		}
	}
	if in.WorkTree == "" && c.remote.url == "" && in.Strategy != strategyNone && in.Strategy != strategyEmpty {
		return errors.New("url: there is no repository to fetch; give url or work_tree, or set strategy to none")
	}
	return nil
}

// isCommit reports whether a text is the name of a commit, or how one begins.
func isCommit(text string) bool {
	const shortest, longest = 4, 64
	return len(text) >= shortest && len(text) <= longest && strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

// run brings the files and returns the commit that they are of.
func (c *checkout) run(ctx context.Context) (string, error) {
	switch {
	case c.in.Strategy == strategyNone:
		c.say("Skipping Git repository setup")
		return checkedOut(c.folder), nil
	case c.in.Strategy == strategyEmpty:
		c.say("Skipping Git repository setup and creating an empty folder")
		return "", clearFolder(c.folder)
	case c.in.WorkTree != "":
		return c.copyWorkTree(ctx)
	}
	attempts := min(max(int(c.in.Attempts), 1), maxAttempts)
	wait, bring := firstPause, c.bring
	for n := 1; ; n++ {
		sha, err := bring(ctx, n > 1)
		if errors.Is(err, process.ErrNotFound) {
			c.gitless = &gitless{checkout: c}
			bring = c.gitless.bring
			c.gitless.announce()
			sha, err = bring(ctx, n > 1)
		}
		if err != nil && n == 1 && c.reused && ctx.Err() == nil {
			c.say("WARNING: %v; beginning again without what an earlier job left", err)
			sha, err = bring(ctx, true)
		}
		var refused *clone.RefusedError
		if err == nil || n == attempts || ctx.Err() != nil || errors.As(err, &refused) {
			return sha, err
		}
		c.say("WARNING: %v; trying again in %v (%d of %d)", err, wait, n+1, attempts)
		if !c.pause(ctx, wait) {
			return "", context.Cause(ctx)
		}
		wait = min(2*wait, longPause)
	}
}

// bring makes one attempt. A second one clears the folder first: what is broken may be what is in it.
func (c *checkout) bring(ctx context.Context, again bool) (sha string, err error) {
	if entries, err := os.ReadDir(c.folder); err == nil {
		c.reused = len(entries) > 0
	}
	if again || c.in.Strategy == strategyClone {
		c.reused = false
		if err := clearFolder(c.folder); err != nil {
			return "", err
		}
	}
	if sha, err = c.fetch(ctx); err != nil {
		return "", err
	}
	if !c.in.Checkout {
		c.say("Skipping Git checkout")
	} else if sha != "" {
		if err := c.checkOut(ctx, sha); err != nil {
			return "", err
		}
		if err := c.submodules(ctx); err != nil {
			return "", err
		}
	}
	c.trust(ctx)
	return c.head(ctx)
}

// trust adds the folder to those that git trusts for the job's user.
func (c *checkout) trust(ctx context.Context) {
	if !c.in.SafeDirectory {
		return
	}
	if err := c.git(ctx, "config", "--global", "--replace-all", "safe.directory", c.folder, "^"+regexp.QuoteMeta(c.folder)+"$"); err != nil {
		c.say("WARNING: git does not trust %s in later steps if another user owns it: %v", c.folder, err)
	}
}

// copyWorkTree copies files on this machine.
func (c *checkout) copyWorkTree(ctx context.Context) (string, error) {
	from := c.in.WorkTree
	if !filepath.IsAbs(from) {
		from = filepath.Join(c.call.WorkDir, from)
	}
	if inside(from, c.folder) {
		return "", fmt.Errorf("work_tree: %s is in the folder that it would be copied to, %s", c.in.WorkTree, c.folder)
	}
	if err := clearFolder(c.folder); err != nil {
		return "", err
	}
	s, err := worktree.Copy(ctx, from, c.folder, worktree.Options{
		Env: c.call.Env, Excludes: c.in.ExcludesFile, Ignored: c.in.Ignored, NoSubmodules: c.in.Submodules == "none",
	})
	if err != nil {
		return "", err
	}
	if err := c.track(s.Commit); err != nil {
		return "", err
	}
	at := ""
	switch {
	case s.Branch != "" && s.Commit != "":
		at = fmt.Sprintf(" at %s (%s)", short(s.Commit), s.Branch)
	case s.Commit != "":
		at = " at " + short(s.Commit)
	}
	c.say("Copied %s of %s%s", selection.Count(s.Files+s.Links, "file", "files"), c.in.WorkTree, at)
	for _, name := range s.Skipped {
		c.say("WARNING: %q is neither a file nor a link, and not copied", name)
	}
	if s.Repository && s.Commit == "" {
		return c.head(ctx)
	}
	return s.Commit, nil
}

// track makes refs/remotes/origin of the branch in c.in.Tracking point to a commit. Without git: a container may have none.
func (c *checkout) track(commit string) error {
	dir := filepath.Join(c.folder, ".git")
	if info, err := os.Stat(dir); c.in.Tracking == "" || commit == "" || err != nil || !info.IsDir() {
		return nil
	}
	if !filepath.IsLocal(filepath.FromSlash(c.in.Tracking)) {
		return fmt.Errorf("tracking: %q is not the name of a branch", c.in.Tracking)
	}
	if _, err := os.Stat(filepath.Join(dir, "reftable")); err == nil {
		c.say("WARNING: refs/remotes/origin/%s was not made: the repository keeps its refs in tables", c.in.Tracking)
		return nil
	}
	file := filepath.Join(dir, "refs", "remotes", "origin", filepath.FromSlash(c.in.Tracking))
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(commit+"\n"), 0o666)
}

// inside reports whether a path is another, or below it.
func inside(path, folder string) bool {
	real := func(path string) string {
		if p, err := filepath.EvalSymlinks(path); err == nil {
			return p
		}
		return filepath.Clean(path)
	}
	rel, err := filepath.Rel(real(folder), real(path))
	return err == nil && filepath.IsLocal(rel)
}

// head returns the commit that is checked out, "" when there is none.
func (c *checkout) head(ctx context.Context) (string, error) {
	if _, err := os.Stat(filepath.Join(c.folder, ".git")); err != nil {
		return "", nil
	}
	text, err := c.ask(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	var exit *program.ExitError
	if errors.As(err, &exit) {
		return "", nil
	}
	return strings.TrimSpace(text), err
}

// explain adds what to do about errors that a job's author cannot know.
func (c *checkout) explain(err error) error {
	if errors.Is(err, process.ErrNotFound) {
		return fmt.Errorf("%w; install git in the environment of the job, or bring the files another way and set strategy to none", err)
	}
	return err
}

func (c *checkout) say(format string, args ...any) {
	fmt.Fprintf(c.call.Stdout, format+"\n", args...)
}

// git runs git in the folder.
func (c *checkout) git(ctx context.Context, args ...string) error {
	return c.call.Run(ctx, c.folder, c.env, c.command(args)...)
}

// ask is like git and returns what it prints.
func (c *checkout) ask(ctx context.Context, args ...string) (string, error) {
	return c.call.Read(ctx, c.folder, c.env, c.command(args)...)
}

// silent is like ask, and hides what git complains about.
func (c *checkout) silent(ctx context.Context, args ...string) (string, error) {
	quiet := *c.call
	quiet.Stderr = io.Discard
	return quiet.Read(ctx, c.folder, c.env, c.command(args)...)
}

func (c *checkout) command(args []string) []string {
	return append(append([]string{"git"}, c.scoped...), args...)
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// shortCommit is how many digits of a commit a person is shown.
const shortCommit = 8

func short(commit string) string { return commit[:min(len(commit), shortCommit)] }
