package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
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
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
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
		Use:   "ls",
		Short: "List what is in the cache",
		Long: `ls lists packages (what was fetched, by content digest), mirrors of repositories, and downloads that broke off. What was used
last comes first. FROM are the references that are known to lead to a package.

` + readerExitCodesHelp,
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
				return a.printJSON(entries)
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
		Use:   "prune",
		Short: "Remove what was not used for long",
		Long: `prune removes what was not used for longest, until the rest is within --max-size and --max-age. Runs may go on meanwhile.

` + readerExitCodesHelp,
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
		return a.printJSON(pruned)
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
	_, err = fmt.Fprintf(a.stdout, "%s %d, %s; %s left\n", did, len(pruned.Removed), bytesText(pruned.Freed), bytesText(pruned.Left))
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
				err = a.printJSON(checked)
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
	_, err := fmt.Fprintf(a.stdout, "%d packages verified, %s; %d problems\n", c.Packages, bytesText(c.Size), len(c.Problems))
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

// printJSON prints data for programs.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// sizeUnits are the units of sizes, the longest names first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}, {"", 1},
}

// bytesText is a size as people read it.
func bytesText(n int64) string {
	for _, u := range sizeUnits[:4] {
		if n >= u.bytes {
			return strconv.FormatFloat(math.Round(float64(n)*10/float64(u.bytes))/10, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// parseSize reads a size, "500MB" or "2GiB". Without a unit it is in bytes.
func parseSize(text string) (int64, error) {
	for _, u := range sizeUnits {
		number, ok := cutSuffixFold(strings.TrimSpace(text), u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(n > 0) || n*float64(u.bytes) > math.MaxInt64/2 {
			break
		}
		return max(1, int64(n*float64(u.bytes))), nil
	}
	return 0, fmt.Errorf("%q is not a size; write it as 500MB or 2GiB", text)
}

func cutSuffixFold(s, suffix string) (string, bool) {
	i := len(s) - len(suffix)
	if i < 0 || !strings.EqualFold(s[i:], suffix) {
		return s, false
	}
	return s[:i], true
}

// ageText is a time as parseAge reads it.
func ageText(d time.Duration) string { return strconv.Itoa(int(d/(24*time.Hour))) + "d" }

// parseAge reads a time, "12h" or "30d".
func parseAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 100_000 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%q is not a time; write it as 12h or 30d", text)
}
