package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/steps/source/cache"
)

// exitDamaged is what cache verify exits with when something in the cache is not what it should be.
const exitDamaged = 1

func (a *app) cacheCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Show, check and clear what was fetched",
		Long: `step-runner keeps what it fetches in a folder of yours, by content digest, and checks it whenever it is used. Everything there
can be removed at any time: it is fetched again when it is needed.

The cache keeps itself within ` + bytesText(cache.DefaultMaxSize) + ` and removes what was not used for ` + ageText(cache.DefaultMaxAge) + `; it looks once a day.`,
		Example: `  step-runner cache ls
  step-runner cache prune --max-size 1GiB
  step-runner cache verify --repair`,
	}
	group(cmd)
	cmd.PersistentFlags().StringVar(&dir, "cache", "", "use the cache in `DIR` (default: $STEP_RUNNER_CACHE, or step-runner in your cache folder)")
	open := func() (*cache.Cache, error) { return a.openCache(dir) }
	cmd.AddCommand(a.cacheListCommand(open), a.cachePruneCommand(open), a.cacheVerifyCommand(open), a.cacheDirCommand(open))
	return cmd
}

// openCache opens the cache that runs use.
func (a *app) openCache(dir string) (*cache.Cache, error) {
	if dir = cmp.Or(dir, a.getenv("STEP_RUNNER_CACHE")); dir == "" {
		if _, err := os.UserCacheDir(); err != nil {
			return nil, coded(exitNotFound, "you have no cache folder: %v", err).hinted("name a folder with --cache")
		}
	}
	dir, err := filepath.Abs(a.cacheDir(&sourceFlags{cacheDir: dir}, ""))
	if err != nil {
		return nil, coded(exitSystem, "finding the cache: %v", err)
	}
	return cache.New(dir), nil
}

func (a *app) cacheListCommand(open func() (*cache.Cache, error)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:        "ls",
		SuggestFor: []string{"list", "show"},
		Short:      "List what is in the cache",
		Long: `ls lists packages (what was fetched, by content digest), mirrors of repositories, and downloads that broke off. What was used
last comes first. FROM are the references that are known to lead to a package.

Exit codes: 0 fine · 2 usage · 5 our system failed · 6 you have no cache folder`,
		Example: `  step-runner cache ls
  step-runner cache ls --json | jq -r '.[] | select(.size > 1000000) | .name'`,
		Args: arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			entries, err := c.List()
			if err != nil {
				return coded(exitSystem, "listing the cache: %v", err)
			}
			if asJSON {
				if entries == nil {
					entries = []cache.Entry{}
				}
				return writeJSON(a.stdout, entries)
			}
			return a.printEntries(entries, c.Dir())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// shownDigest is how many characters of a name are enough to tell entries apart.
const shownDigest = 19

func (a *app) printEntries(entries []cache.Entry, dir string) error {
	if len(entries) == 0 {
		_, err := fmt.Fprintf(a.stdout, "nothing is cached in %s\n", dir)
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KIND\tNAME\tSIZE\tUSED\tFROM")
	var size int64
	for _, e := range entries {
		size += e.Size
		name := e.Name[:min(len(e.Name), shownDigest)]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.Kind, name, bytesText(e.Size), e.Used.Format(time.DateOnly), strings.Join(e.From, ", "))
	}
	fmt.Fprintf(w, "\n%d in %s, %s\n", len(entries), dir, bytesText(size))
	return w.Flush()
}

func (a *app) cachePruneCommand(open func() (*cache.Cache, error)) *cobra.Command {
	var o cache.PruneOptions
	var maxSize, maxAge string
	var asJSON bool
	cmd := &cobra.Command{
		Use:        "prune",
		SuggestFor: []string{"clear", "clean", "gc", "rm"},
		Short:      "Remove what was not used for long",
		Long: `prune removes what was not used for longest, until the rest is within --max-size and --max-age. Runs may go on meanwhile.

Exit codes: 0 fine · 2 usage · 5 our system failed · 6 you have no cache folder`,
		Example: `  step-runner cache prune
  step-runner cache prune --max-size 500MB --max-age 30d
  step-runner cache prune --all --dry-run`,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.MaxSize, err = parseSize(maxSize); err != nil {
				return usage("--max-size: %v", err)
			}
			if o.MaxAge, err = parseAge(maxAge); err != nil {
				return usage("--max-age: %v", err)
			}
			return a.prune(cmd.Context(), open, o, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&maxSize, "max-size", bytesText(cache.DefaultMaxSize), "keep at most `SIZE` (500MB, 2GiB)")
	f.StringVar(&maxAge, "max-age", ageText(cache.DefaultMaxAge), "keep what was used within `TIME` (12h, 30d)")
	f.BoolVar(&o.All, "all", false, "remove everything")
	f.BoolVar(&o.DryRun, "dry-run", false, "remove nothing, and say what would be removed")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) prune(ctx context.Context, open func() (*cache.Cache, error), o cache.PruneOptions, asJSON bool) error {
	c, err := open()
	if err != nil {
		return err
	}
	pruned, err := c.Prune(ctx, o)
	if err != nil {
		return coded(exitSystem, "pruning the cache: %v", err)
	}
	if asJSON {
		return writeJSON(a.stdout, pruned)
	}
	did := "removed"
	if o.DryRun {
		did = "would remove"
	}
	for _, e := range pruned.Removed {
		if _, err := fmt.Fprintf(a.stdout, "%s %s %s, %s, used %s\n", did, e.Kind, e.Name, bytesText(e.Size), e.Used.Format(time.DateOnly)); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(a.stdout, "%s %s, %s; %s left\n", did, count(len(pruned.Removed), "item"), bytesText(pruned.Freed), bytesText(pruned.Left))
	return err
}

func (a *app) cacheVerifyCommand(open func() (*cache.Cache, error)) *cobra.Command {
	var repair, asJSON bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that the cache holds what it says",
		Long: `verify reads every package and compares its content with its digest. Runs do so, too, with what they use: this is for all the
rest, and for those who want to know.

Exit codes: 0 all is well, or was repaired · 1 something is damaged · 2 usage · 5 our system failed`,
		Example: `  step-runner cache verify
  step-runner cache verify --repair`,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			checked, err := c.Verify(cmd.Context(), repair)
			if err != nil {
				return coded(exitSystem, "verifying the cache: %v", err)
			}
			if asJSON {
				err = writeJSON(a.stdout, checked)
			} else {
				err = a.printChecked(checked)
			}
			for _, p := range checked.Problems {
				if err == nil && !p.Removed {
					return &shown{exitDamaged}
				}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "remove what is damaged")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printChecked(c *cache.Checked) error {
	for _, p := range c.Problems {
		end := ""
		if p.Removed {
			end = " (removed)"
		}
		fmt.Fprintf(a.stdout, "%s: %s%s\n", p.Path, p.What, end)
	}
	_, err := fmt.Fprintf(a.stdout, "%s verified, %s; %s\n", count(c.Packages, "package"), bytesText(c.Size), count(len(c.Problems), "problem"))
	return err
}

func (a *app) cacheDirCommand(open func() (*cache.Cache, error)) *cobra.Command {
	return &cobra.Command{
		Use:     "dir",
		Short:   "Print where the cache is",
		Example: `  du -sh "$(step-runner cache dir)"`,
		Args:    arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			c, err := open()
			if err == nil {
				_, err = fmt.Fprintln(a.stdout, c.Dir())
			}
			return err
		},
	}
}
