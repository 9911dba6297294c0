// Package selection finds the files of the work directory that a step keeps, as caches and artifacts name them, and reports in
// the step's log what every pattern found.
package selection

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/gitquery"
	"github.com/rungci/rung/internal/glob"
	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/steps/catalog/program"
)

// Request says which files are wanted.
type Request struct {
	Paths, Exclude []string
	// Untracked adds what Git does not track: also what .gitignore names, since that is where builds put their results.
	Untracked bool
	// Without are folders that are never part of it, absolute or relative to the work directory: where a step keeps its own files.
	Without []string
}

// Find returns the files. What is odd about the patterns is a warning in the log; the error is about the work directory, or ctx's.
func Find(ctx context.Context, call *program.Call, r Request) ([]glob.Entry, error) {
	request := glob.Request{Dir: call.WorkDir, Paths: r.Paths, Exclude: r.Exclude}
	if r.Untracked {
		names, err := untracked(ctx, call)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			Warn(call, "untracked files are left out: %v", err)
		default:
			fmt.Fprintf(call.Stdout, "untracked: %s\n", Count(len(names), "file", "files"))
		}
		request.Untracked = names
	}
	result, err := glob.Find(ctx, request)
	if err != nil {
		return nil, err
	}
	for _, pattern := range unique(r.Paths) {
		if n := result.Found[pattern]; n > 0 {
			fmt.Fprintf(call.Stdout, "%s: %s\n", shown(pattern), Count(n, "file or folder", "files and folders"))
		}
	}
	for _, pattern := range unique(r.Exclude) {
		if n := result.Excluded[pattern]; n > 0 {
			fmt.Fprintf(call.Stdout, "%s: leaves out %s\n", shown(pattern), Count(n, "file or folder", "files and folders"))
		}
	}
	for _, w := range result.Warnings {
		Warn(call, "%s", w)
	}
	entries := slices.DeleteFunc(result.Entries, within(call, r.Without))
	return entries, nil
}

// Names returns the paths of entries.
func Names(entries []glob.Entry) []string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Path
	}
	return names
}

// Warn writes a warning into the step's log.
func Warn(call *program.Call, format string, args ...any) {
	fmt.Fprintf(call.Stderr, "warning: "+format+"\n", args...)
}

// untracked asks Git for the files that it does not track. The folder can be somebody else's, as in containers; Git is told that it is
// meant all the same.
func untracked(ctx context.Context, call *program.Call) ([]string, error) {
	// The job has written the configuration, and this step may have secrets that the job has not.
	out, err := call.Read(ctx, "", gitquery.Environment(nil), gitquery.Command("-c", "safe.directory="+filepath.ToSlash(call.WorkDir), "ls-files", "--others", "-z")...)
	if errors.Is(err, process.ErrNotFound) {
		return walkUntracked(ctx, call.WorkDir)
	}
	if err != nil {
		return nil, err
	}
	return strings.FieldsFunc(out, func(r rune) bool { return r == 0 }), nil
}

// within returns what reports whether an entry is in one of the folders, or is one.
func within(call *program.Call, folders []string) func(glob.Entry) bool {
	var inside []string
	for _, folder := range folders {
		if folder == "" {
			continue
		}
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(call.WorkDir, folder)
		}
		relative, err := filepath.Rel(call.WorkDir, folder)
		if err == nil && relative != "." && filepath.IsLocal(relative) {
			inside = append(inside, filepath.ToSlash(relative))
		}
	}
	return func(e glob.Entry) bool {
		return slices.ContainsFunc(inside, func(folder string) bool { return e.Path == folder || strings.HasPrefix(e.Path, folder+"/") })
	}
}

// shown is a pattern as a line of a log can hold it.
func shown(pattern string) string {
	if quoted := fmt.Sprintf("%q", pattern); quoted != `"`+pattern+`"` {
		return quoted
	}
	return pattern
}

// Count is a number of things in words: one is what one of them is called, many several.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
