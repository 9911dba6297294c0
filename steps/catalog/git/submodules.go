package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// withSubmodules reports whether submodules are brought at all.
func (in *inputs) withSubmodules() bool {
	return (in.Submodules == "normal" || in.Submodules == "recursive") && in.Checkout
}

// submodules brings the submodules' files.
func (c *checkout) submodules(ctx context.Context) error {
	recursive := c.in.Submodules == "recursive"
	if !c.in.withSubmodules() {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(c.folder, ".gitmodules")); err != nil {
		return nil
	}
	c.say("Updating submodules...")
	if err := c.updateSubmodules(ctx, recursive); err != nil {
		if ctx.Err() != nil {
			return err
		}
		// Their addresses may have changed on the way down, which sync above could not see yet.
		c.say("WARNING: %v; trying once more", err)
		if err := c.updateSubmodules(ctx, recursive); err != nil {
			return err
		}
	}
	if len(c.in.CleanFlags) > 0 {
		if err := c.foreach(ctx, recursive, append([]string{"git", "clean"}, c.in.CleanFlags...)...); err != nil {
			return fmt.Errorf("removing what is not of the submodules: %w", err)
		}
	}
	if err := c.foreach(ctx, recursive, "git", "reset", "--quiet", "--hard"); err != nil {
		return fmt.Errorf("resetting the submodules: %w", err)
	}
	args := []string{"submodule", "--quiet", "foreach"}
	if recursive {
		args = append(args, "--recursive")
	}
	return c.pullLarge(ctx, append(args, "git", "lfs", "pull")...)
}

func (c *checkout) updateSubmodules(ctx context.Context, recursive bool) error {
	paths := append([]string{"--"}, c.in.SubmodulePaths...)
	if err := c.git(ctx, append([]string{"submodule", "--quiet", "init"}, paths...)...); err != nil {
		return fmt.Errorf("beginning with the submodules: %w", err)
	}
	sync := []string{"submodule", "--quiet", "sync"}
	update := []string{"submodule", "--quiet", "update", "--init", "--force"}
	if recursive {
		sync, update = append(sync, "--recursive"), append(update, "--recursive")
	}
	if err := c.git(ctx, append(sync, paths...)...); err != nil {
		return fmt.Errorf("reading the submodules' addresses: %w", err)
	}
	if c.in.SubmoduleDepth > 0 {
		update = append(update, "--depth", strconv.Itoa(int(c.in.SubmoduleDepth)))
	}
	update = append(append(update, c.in.SubmoduleUpdateFlags...), paths...)
	if err := c.git(ctx, update...); err != nil {
		return fmt.Errorf("updating the submodules: %w", err)
	}
	return nil
}

// foreach runs a command in every submodule that is there.
func (c *checkout) foreach(ctx context.Context, recursive bool, command ...string) error {
	args := []string{"submodule", "--quiet", "foreach"}
	if recursive {
		args = append(args, "--recursive")
	}
	return c.git(ctx, append(args, command...)...)
}
