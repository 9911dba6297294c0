package repository

import (
	"context"
	"fmt"
	"strings"
)

// resolve returns the commit that a name stands for.
func (r *Repository) resolve(ctx context.Context, name string) (string, error) {
	if !r.Git {
		return "", fmt.Errorf("cannot compare with %q: this is not a Git repository", name)
	}
	commit, err := r.lookUp(ctx, name)
	if err != nil {
		return "", err
	}
	if commit == "" {
		hint := "git fetch may get it"
		if r.Shallow {
			hint = "git fetch --unshallow gets older commits"
		}
		return "", fmt.Errorf("%q is not a branch, tag or commit in this repository: %s", name, hint)
	}
	return commit, nil
}

// lookUp returns the commit that a name stands for, "" where there is none.
func (r *Repository) lookUp(ctx context.Context, name string) (string, error) {
	if name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, "\x00\n") {
		return "", nil
	}
	return r.question(ctx, "rev-parse", "--verify", "--quiet", name+"^{commit}")
}

// branch returns the commit of a branch: that of the remote, which is what GitLab knows, or else the local one.
func (r *Repository) branch(ctx context.Context, name string) (string, error) {
	places := []string{"refs/heads/" + name}
	if r.Remote != "" {
		places = append([]string{"refs/remotes/" + r.Remote + "/" + name}, places...)
	}
	for _, place := range places {
		if commit, err := r.lookUp(ctx, place); commit != "" || err != nil {
			return commit, err
		}
	}
	return "", nil
}

// comparable returns the commit that `compare_to` means: a branch, also by its full name, a tag or a commit.
func (r *Repository) comparable(ctx context.Context, ref string) (string, error) {
	name := strings.TrimPrefix(ref, "refs/heads/")
	commit, err := r.branch(ctx, name)
	if err == nil && commit == "" {
		commit, err = r.lookUp(ctx, "refs/tags/"+strings.TrimPrefix(ref, "refs/tags/"))
	}
	if commit != "" || err != nil {
		return commit, err
	}
	return r.resolve(ctx, ref)
}
