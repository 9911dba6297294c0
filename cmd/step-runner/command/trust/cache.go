package trust

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

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/components"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/quantity"
	"github.com/rungci/rung/internal/bytesize"
	"github.com/rungci/rung/steps/source/cache"
)

// exitDamaged is what cache verify exits with when something in the cache is not what it should be.
const exitDamaged = 1

// cacheCommands are the commands of the cache.
type cacheCommands struct{ *command.Program }

func (a *cacheCommands) cacheCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "List, verify and prune fetched components",
		Long: `step-runner keeps what it fetches in a folder of yours, by content digest, and checks it whenever it is used. Everything
there can be removed at any time: it is fetched again when it is needed.

The cache keeps itself within ` + bytesize.Format(cache.DefaultMaxSize) + ` and removes what was not used for ` + quantity.Age(cache.DefaultMaxAge) + `; it looks once a day.`,
		Example: `  step-runner cache ls
  step-runner cache prune --max-size 1GiB
  step-runner cache verify --repair`,
	}
	command.Group(cmd)
	cmd.PersistentFlags().StringVar(&dir, "cache", "", "use the cache in `DIR` (default: $STEP_RUNNER_CACHE, or step-runner in your cache folder)")
	open := func() (*cache.Cache, error) { return a.openCache(dir) }
	cmd.AddCommand(a.cacheListCommand(open), a.cachePruneCommand(open), a.cacheVerifyCommand(open), a.cacheDirCommand(open))
	return cmd
}

// openCache opens the cache that runs use.
func (a *cacheCommands) openCache(dir string) (*cache.Cache, error) {
	if dir = cmp.Or(dir, a.Getenv("STEP_RUNNER_CACHE")); dir == "" {
		if _, err := os.UserCacheDir(); err != nil {
			return nil, exit.Coded(exit.NotFound, "you have no cache folder: %v", err).Hinted("name a folder with --cache")
		}
	}
	dir, err := filepath.Abs((&components.Flags{CacheDir: dir}).CacheFolder(a.Program, ""))
	if err != nil {
		return nil, exit.Coded(exit.System, "finding the cache: %v", err)
	}
	return components.OpenCache(dir)
}

func (a *cacheCommands) cacheListCommand(open func() (*cache.Cache, error)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:        "ls",
		SuggestFor: []string{"list", "show"},
		Short:      "List the cache",
		Long: `ls lists packages (fetched content, by digest), mirrors of repositories and interrupted downloads, most recently used
first. FROM shows the references known to resolve to a package.

Exit codes: 0 success · 2 usage · 5 internal error · 6 no cache folder`,
		Example: `  step-runner cache ls
  step-runner cache ls --json | jq -r '.[] | select(.size > 1e6) | .name'`,
		Args: command.Arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			entries, err := c.List()
			if err != nil {
				return exit.Coded(exit.System, "listing the cache: %v", err)
			}
			if asJSON {
				if entries == nil {
					entries = []cache.Entry{}
				}
				return command.WriteJSON(a.Stdout, entries)
			}
			return a.printEntries(entries, c.Dir())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// shownDigest is how many characters of a name are enough to tell entries apart.
const shownDigest = 19

func (a *cacheCommands) printEntries(entries []cache.Entry, dir string) error {
	if len(entries) == 0 {
		_, err := fmt.Fprintf(a.Stdout, "nothing is cached in %s\n", dir)
		return err
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KIND\tNAME\tSIZE\tUSED\tFROM")
	var size int64
	for _, e := range entries {
		size += e.Size
		name := e.Name[:min(len(e.Name), shownDigest)]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.Kind, name, bytesize.Format(e.Size), e.Used.Format(time.DateOnly), strings.Join(e.From, ", "))
	}
	fmt.Fprintf(w, "\n%d in %s, %s\n", len(entries), dir, bytesize.Format(size))
	return w.Flush()
}

func (a *cacheCommands) cachePruneCommand(open func() (*cache.Cache, error)) *cobra.Command {
	var o cache.PruneOptions
	var maxSize, maxAge string
	var asJSON bool
	cmd := &cobra.Command{
		Use:        "prune",
		SuggestFor: []string{"clear", "clean", "gc", "rm"},
		Short:      "Remove what was not used recently",
		Long: `prune removes the least recently used entries until the cache is within --max-size and --max-age. It is safe to use
during runs.

Exit codes: 0 success · 2 usage · 5 internal error · 6 no cache folder`,
		Example: `  step-runner cache prune
  step-runner cache prune --max-size 500MB --max-age 30d
  step-runner cache prune --all --dry-run`,
		Args: command.Arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.MaxSize, err = bytesize.Parse(maxSize); err != nil {
				return exit.Usage("--max-size: %v", err)
			}
			if o.MaxAge, err = quantity.ParseAge(maxAge); err != nil {
				return exit.Usage("--max-age: %v", err)
			}
			return a.prune(cmd.Context(), open, o, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&maxSize, "max-size", bytesize.Format(cache.DefaultMaxSize), "keep at most `SIZE` (500MB, 2GiB)")
	f.StringVar(&maxAge, "max-age", quantity.Age(cache.DefaultMaxAge), "keep what was used within `TIME` (12h, 30d)")
	f.BoolVar(&o.All, "all", false, "remove everything")
	f.BoolVar(&o.DryRun, "dry-run", false, "print what would be removed")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *cacheCommands) prune(ctx context.Context, open func() (*cache.Cache, error), o cache.PruneOptions, asJSON bool) error {
	c, err := open()
	if err != nil {
		return err
	}
	pruned, err := c.Prune(ctx, o)
	if err != nil {
		return exit.Coded(exit.System, "pruning the cache: %v", err)
	}
	if asJSON {
		return command.WriteJSON(a.Stdout, pruned)
	}
	did := "removed"
	if o.DryRun {
		did = "would remove"
	}
	for _, e := range pruned.Removed {
		if _, err := fmt.Fprintf(a.Stdout, "%s %s %s, %s, used %s\n", did, e.Kind, e.Name, bytesize.Format(e.Size), e.Used.Format(time.DateOnly)); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(a.Stdout, "%s %s, %s; %s left\n", did, quantity.Count(len(pruned.Removed), "item"), bytesize.Format(pruned.Freed), bytesize.Format(pruned.Left))
	return err
}

func (a *cacheCommands) cacheVerifyCommand(open func() (*cache.Cache, error)) *cobra.Command {
	var repair, asJSON bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the cache against its digests",
		Long: `verify reads every package and compares its content with its digest. Runs check only the packages they use.

Exit codes: 0 intact or repaired · 1 damaged packages found · 2 usage · 5 internal error`,
		Example: `  step-runner cache verify
  step-runner cache verify --repair`,
		Args: command.Arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			checked, err := c.Verify(cmd.Context(), repair)
			if err != nil {
				return exit.Coded(exit.System, "verifying the cache: %v", err)
			}
			if asJSON {
				err = command.WriteJSON(a.Stdout, checked)
			} else {
				err = a.printChecked(checked)
			}
			for _, p := range checked.Problems {
				if err == nil && !p.Removed {
					return exit.Shown(exitDamaged)
				}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "remove damaged packages")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *cacheCommands) printChecked(c *cache.Checked) error {
	for _, p := range c.Problems {
		end := ""
		if p.Removed {
			end = " (removed)"
		}
		fmt.Fprintf(a.Stdout, "%s: %s%s\n", p.Path, p.What, end)
	}
	_, err := fmt.Fprintf(a.Stdout, "%s verified, %s; %s\n", quantity.Count(c.Packages, "package"), bytesize.Format(c.Size), quantity.Count(len(c.Problems), "problem"))
	return err
}

func (a *cacheCommands) cacheDirCommand(open func() (*cache.Cache, error)) *cobra.Command {
	return &cobra.Command{
		Use:     "dir",
		Short:   "Print the path of the cache",
		Example: `  du -sh "$(step-runner cache dir)"`,
		Args:    command.Arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			c, err := open()
			if err == nil {
				_, err = fmt.Fprintln(a.Stdout, c.Dir())
			}
			return err
		},
	}
}
