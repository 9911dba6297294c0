package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rungci/rung/steps/catalog/program"
)

// template is the configuration of a fresh repository: the remote, and what a job's own git commands should find. They ask nobody for a
// password, fetch no submodules by themselves, and leave nothing in the background.
func (c *checkout) template() string {
	return `[fetch]
	recurseSubmodules = false
[credential]
	interactive = never
[gc]
	autoDetach = false
[remote "origin"]
	url = ` + gitConfigQuoted(c.remote.url) + `
	fetch = +refs/heads/*:refs/remotes/origin/*
` + certificates(c).section()
}

// fetch brings the repository up to date and returns the commit to check out, "" when it has none.
func (c *checkout) fetch(ctx context.Context) (sha string, err error) {
	clone := c.in.Strategy == strategyClone && len(c.in.CloneFlags) > 0
	if clone {
		err = c.clone(ctx)
	} else {
		err = c.prepare(ctx)
	}
	if err != nil {
		return "", err
	}
	sha, refspecs, err := c.target(ctx)
	if err != nil || len(refspecs) == 0 {
		return "", err
	}
	c.say("%s", c.in.fetching())
	if c.again { // as git itself says it
		c.say("Reinitialized existing Git repository in %s", filepath.Join(c.folder, ".git")+string(filepath.Separator))
	}
	args := append([]string{"fetch", "--no-recurse-submodules"}, c.depthFlags()...)
	args = append(append(args, c.in.FetchFlags...), "origin")
	if err := c.git(ctx, append(args, refspecs...)...); err != nil {
		return "", fmt.Errorf("fetching %s: %w", c.remote.url, err)
	}
	return sha, c.complete(ctx, sha)
}

// fetching is the line of the log before the changes are fetched.
func (in *inputs) fetching() string {
	if in.Depth > 0 {
		return fmt.Sprintf("Fetching changes with git depth set to %d...", in.Depth)
	}
	return "Fetching changes..."
}

// depthFlags say how much history to fetch. What an earlier job fetched a part of is completed where all is wanted.
func (c *checkout) depthFlags() []string {
	if c.in.Depth > 0 {
		return []string{"--depth", strconv.Itoa(int(c.in.Depth))}
	}
	if _, err := os.Stat(filepath.Join(c.folder, ".git", "shallow")); err == nil {
		return []string{"--unshallow"}
	}
	return nil
}

// complete fetches the commit itself where the refs did not bring it: it is further back than the depth, or its branch moved on.
func (c *checkout) complete(ctx context.Context, sha string) error {
	if sha == "" || !c.in.Checkout {
		return nil
	}
	_, err := c.silent(ctx, "cat-file", "-e", sha+"^{commit}")
	var exit *program.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if len(sha) < sha1Digits {
		return c.remote.noCommit(sha)
	}
	args := append([]string{"fetch", "--no-recurse-submodules", "--quiet"}, c.depthFlags()...)
	if err := c.git(ctx, append(args, "origin", sha)...); err != nil {
		return c.remote.noWholeCommit(sha, err)
	}
	return nil
}

// sha1Digits is how long the whole name of a commit is, at least.
const sha1Digits = 40

func (r *remote) noCommit(beginning string) error {
	return fmt.Errorf("the commit %s is not in what was fetched of %s; give its whole name, or a larger depth", beginning, r.url)
}

func (r *remote) noWholeCommit(sha string, err error) error {
	return fmt.Errorf("the commit %s is not in what was fetched of %s, and cannot be fetched by itself; a larger depth may reach it: %w", sha, r.url, err)
}

// prepare makes a repository of the folder, or one of an earlier job safe to use.
func (c *checkout) prepare(ctx context.Context) error {
	if err := os.MkdirAll(c.folder, 0o777); err != nil {
		return err
	}
	git := filepath.Join(c.folder, ".git")
	err := cleanRepository(git, c.in.CleanConfig)
	if err == nil {
		err = c.leaveOtherFormat(ctx, git)
	}
	if err == nil && c.in.CleanConfig {
		err = disarm(git)
	}
	if err != nil {
		return fmt.Errorf("removing what an earlier job left in %s: %w", git, err)
	}
	_, err = os.Stat(filepath.Join(git, "HEAD"))
	c.again = err == nil
	folder, err := os.MkdirTemp(c.call.Getenv("TMPDIR"), "git-template-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := os.WriteFile(filepath.Join(folder, "config"), []byte(c.template()), 0o644); err != nil {
		return err
	}
	args := []string{"-c", "init.defaultBranch=" + c.in.branch(), "init", "--quiet", "--template=" + folder}
	if c.in.ObjectFormat == "sha256" {
		args = append(args, "--object-format=sha256") // older gits do not know the argument
	}
	if err := c.git(ctx, args...); err != nil {
		return fmt.Errorf("making a repository in %s: %w", c.folder, err)
	}
	if c.again && !c.in.CleanConfig {
		return certificates(c).renew(ctx, c.git)
	}
	return nil
}

// branch is the one that HEAD names before anything is checked out.
func (in *inputs) branch() string {
	if name := strings.TrimPrefix(in.Ref, "refs/heads/"); name != "" && !strings.HasPrefix(name, "refs/") {
		return name
	}
	return "main"
}

// leaveOtherFormat removes a repository that cannot hold the objects that are to come, and one that is not in the folder itself.
func (c *checkout) leaveOtherFormat(ctx context.Context, git string) error {
	info, err := os.Lstat(git)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	if info.IsDir() {
		format, err := c.silent(ctx, "config", "--file", filepath.Join(git, "config"), "extensions.objectFormat")
		var exit *program.ExitError
		if err != nil && !errors.As(err, &exit) {
			return err
		}
		if format = strings.TrimSpace(format); format == "" {
			format = "sha1"
		}
		if want := c.in.ObjectFormat; want == "" || format == want {
			return nil
		}
	}
	return removeAll(git)
}

// clone makes the repository with git clone, for the sake of its arguments.
func (c *checkout) clone(ctx context.Context) error {
	if err := os.MkdirAll(c.folder, 0o777); err != nil {
		return err
	}
	args := []string{"clone", "--no-checkout"}
	if c.in.Depth > 0 {
		args = append(args, "--depth", strconv.Itoa(int(c.in.Depth)))
	}
	args = append(append(args, certificates(c).flags("--config")...), c.in.CloneFlags...)
	args = append(args, "--", c.remote.url, ".")
	if err := c.git(ctx, args...); err != nil {
		return fmt.Errorf("cloning %s: %w", c.remote.url, err)
	}
	return nil
}

// target finds out what to fetch and to check out. Where the commit is not given, the server knows what the ref points to; no refspecs
// say that it has no commits at all.
func (c *checkout) target(ctx context.Context) (sha string, refspecs []string, err error) {
	in := &c.in
	if len(in.Refspecs) > 0 && in.SHA != "" {
		return in.SHA, in.Refspecs, nil
	}
	if in.SHA != "" && in.Ref == "" {
		return in.SHA, everything, nil
	}
	names := []string{"HEAD"}
	if in.Ref != "" {
		names = []string{"refs/tags/" + in.Ref, "refs/heads/" + in.Ref} // in git's order of precedence
		if strings.HasPrefix(in.Ref, "refs/") {
			names = []string{in.Ref}
		}
	}
	found, err := c.remoteRefs(ctx, names...)
	if err != nil {
		return "", nil, err
	}
	for _, name := range names {
		commit := found[name]
		if commit == "" {
			continue
		}
		if in.SHA != "" {
			commit = in.SHA
		}
		switch {
		case len(in.Refspecs) > 0:
			return commit, in.Refspecs, nil
		case name == "HEAD":
			return commit, everything, nil
		}
		return commit, []string{refspec(name)}, nil
	}
	all, err := c.remoteRefs(ctx)
	switch {
	case err != nil:
		return "", nil, err
	case len(all) == 0:
		c.say("The repository %s has no commits", c.remote.url)
		return "", nil, nil
	case in.Ref == "":
		return "", nil, fmt.Errorf("the repository %s has no default branch that exists; give ref or sha", c.remote.url)
	}
	return "", nil, fmt.Errorf("the repository %s has no branch or tag %q", c.remote.url, in.Ref)
}

// everything is all branches and tags.
var everything = []string{"+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"}

// refspec says where a ref goes: branches are the remote's, everything else keeps its name.
func refspec(name string) string {
	if branch, ok := strings.CutPrefix(name, "refs/heads/"); ok {
		return "+" + name + ":refs/remotes/origin/" + branch
	}
	return "+" + name + ":" + name
}

// remoteRefs asks the server for refs, or for all that it has. An annotated tag is given as the commit that it leads to.
func (c *checkout) remoteRefs(ctx context.Context, names ...string) (map[string]string, error) {
	if c.gitless != nil {
		return c.gitless.refs(names), nil
	}
	args := []string{"ls-remote", "origin"}
	for _, name := range names {
		args = append(args, name)
		if strings.HasPrefix(name, "refs/tags/") {
			args = append(args, name+"^{}")
		}
	}
	text, err := c.ask(ctx, args...)
	if err != nil {
		return nil, fmt.Errorf("asking %s for its branches: %w", c.remote.url, err)
	}
	found := map[string]string{}
	for line := range strings.Lines(text) {
		commit, name, ok := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		if ok && isCommit(commit) {
			found[strings.TrimSuffix(name, "^{}")] = commit // what a tag leads to comes after the tag
		}
	}
	return found, nil
}

// checkOut brings the files of a commit, removes what is not of it, and fetches large files.
func (c *checkout) checkOut(ctx context.Context, sha string) error {
	c.say("%s", c.in.checkingOut(sha))
	if c.reused {
		if err := c.forget(ctx, sha); err != nil {
			return err
		}
	}
	if err := c.git(ctx, "checkout", "--force", "--quiet", "--detach", sha); err != nil {
		return fmt.Errorf("checking out %s: %w", short(sha), err)
	}
	if len(c.in.CleanFlags) > 0 {
		if err := c.git(ctx, append([]string{"clean"}, c.in.CleanFlags...)...); err != nil {
			return fmt.Errorf("removing what is not of the commit: %w", err)
		}
	}
	return c.pullLarge(ctx, "lfs", "pull")
}

// checkingOut is the line of the log before a commit is checked out.
func (in *inputs) checkingOut(sha string) string {
	of := ""
	if in.Ref != "" {
		of = fmt.Sprintf(" (ref is %s)", in.Ref)
	}
	return fmt.Sprintf("Checking out %s as detached HEAD%s...", short(sha), of)
}

// forget makes git compare the files that an earlier job left by their content, as the commit says: its index can say that a changed file has not
// changed, and refs can stand for other objects.
func (c *checkout) forget(ctx context.Context, sha string) error {
	if err := removeAll(filepath.Join(c.folder, ".git", "index")); err != nil {
		return err
	}
	replaced, err := c.ask(ctx, "for-each-ref", "--format=%(refname)", "refs/replace/") // those that are packed
	if err != nil {
		return fmt.Errorf("looking for refs of an earlier job: %w", err)
	}
	for _, ref := range strings.Fields(replaced) {
		if err := c.git(ctx, "update-ref", "-d", ref); err != nil {
			return fmt.Errorf("removing the ref %s of an earlier job: %w", ref, err)
		}
	}
	if err := c.git(ctx, "read-tree", sha); err != nil {
		return fmt.Errorf("reading the files of %s: %w", short(sha), err)
	}
	if err := c.forgetTracked(ctx); err != nil {
		return err
	}
	_, err = c.silent(ctx, "update-index", "-q", "--refresh") // it fails where files differ
	var exit *program.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// pullLarge runs Git LFS if it exists.
func (c *checkout) pullLarge(ctx context.Context, args ...string) error {
	if c.in.LFSSkipSmudge {
		return nil
	}
	if _, err := c.silent(ctx, "lfs", "version"); err != nil {
		var exit *program.ExitError
		if errors.As(err, &exit) {
			return nil
		}
		return err
	}
	if err := c.git(ctx, args...); err != nil {
		return fmt.Errorf("fetching large files (Git LFS): %w", err)
	}
	return nil
}
