// Package lock holds the command that pins references.
package lock

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/components"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/findings"
	"github.com/rungci/rung/cmd/step-runner/command/project"
	"github.com/rungci/rung/cmd/step-runner/command/quantity"
	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/frontend/actions/lockfile"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/lock"
	"github.com/rungci/rung/steps/source/locker"
)

// exitNotLocked is what lock --check exits with when the lock file is not as it should be.
const exitNotLocked = 1

// lockOptions are the flags of lock.
type lockOptions struct {
	event  project.Flags
	check  bool
	update bool
	github bool
	output string
	named  bool // output was given
}

// lockCommands write lock files.
type lockCommands struct{ *command.Program }

// Command is the command.
func Command(p *command.Program) *cobra.Command {
	a := &lockCommands{p}
	var o lockOptions
	cmd := &cobra.Command{
		Use:   "lock FILE|REF|IMAGE...",
		Short: "Pin references and images to what they point to now",
		Long: `lock follows every reference in each FILE of steps, and each REF, through the components they use. It fetches them and
writes ` + lock.Name + ` with what each name points to and its content digest. The images of container actions and container steps
are in it with the digests that their registries have for their tags. Runs use these pins; with --locked they use nothing else.

Packages that are already locked stay as they are; --update resolves them again. Unused packages are removed. Relative references start at the current folder, as for ` + "`run` and `ci`" + `.

FILE can be a .gitlab-ci.yml, or a GitHub workflow in .github/workflows. lock then pins the images and services of all its jobs, and all steps, actions and workflows that they use, in ` + lock.Name + ` at the root of the repository. Variables have the values of --variable, the file and .rung/variables.yml. With --github it also writes .github/workflows/actions.lock, GitHub's own lock file, for which it asks GitHub's API for IDs. Existing entries are kept unless you pass --update --github.

A reference or an image with expressions, or with variables of a commit, is known only at run time. lock lists them; pass what they become as further REFs, an IMAGE as docker://NAME.

With --check, lock writes nothing and reports whether the file is complete and up to date; with --offline, whether it is complete according to the cache.

Exit codes: 0 written, or up to date · 1 incomplete or out of date (--check) · 2 usage · 3 invalid definition · 4 not allowed · 5 internal error · 6 not found`,
		Example: `  step-runner lock steps.yml
  step-runner lock --update steps.yml gitlab.com/group/steps/-/deploy@v2
  step-runner lock --check steps.yml
  step-runner lock .gitlab-ci.yml docker://alpine:3
  step-runner lock --github .github/workflows/ci.yml`,
		Args: command.Arguments(1, -1, "the file or reference to lock"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.named = cmd.Flags().Changed("lock-file") || cmd.Flags().Changed("output")
			return a.lock(cmd.Context(), &o, args)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.check, "check", false, "write nothing; report missing and moved references")
	f.BoolVar(&o.update, "update", false, "resolve all references again")
	f.BoolVar(&o.github, "github", false, "also write or check GitHub's lock file of workflows")
	f.StringVar(&o.output, "lock-file", lock.Name, "write or check `FILE`")
	f.StringVarP(&o.output, "output", "o", lock.Name, "same as --lock-file")
	_ = f.MarkHidden("output") // for those who look for an -o
	shared := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.event.Declare(shared)
	for _, name := range []string{"sources", "cache", "offline", "bundle", "variable", "input", "project"} {
		f.AddFlag(shared.Lookup(name))
	}
	return cmd
}

func (a *lockCommands) lock(ctx context.Context, o *lockOptions, args []string) error {
	if o.update && (o.check || o.event.From.Offline) {
		return exit.Usage("--update contacts servers and writes the file: it cannot be used with --check or --offline")
	}
	at, err := projectOf(args)
	switch {
	case err != nil:
		return err
	case o.github && (at == nil || at.files == nil):
		return exit.Usage("--github: none of the definitions to lock is a workflow")
	case at != nil && !o.named:
		o.output = at.lockFile()
	}
	old, err := lock.ReadIfThere(o.output)
	if err != nil {
		return exit.Coded(exit.Definition, "reading the lock file: %v", err)
	}
	if o.check && old == nil {
		return exit.Coded(exit.NotFound, "there is no %s to check", o.output).Hinted("step-runner lock writes one")
	}
	ctx, stop := components.Fetching(ctx, a.Program, 0)
	defer stop()
	folder, err := engine.MakeFolder()
	if err != nil {
		return exit.Coded(exit.System, "making a folder to work in: %v", err)
	}
	defer engine.RemoveFolder(folder)
	l, resolver, err := a.walkToLock(ctx, o, old, args, at, folder)
	if err != nil {
		return err
	}
	for _, d := range l.Warnings {
		fmt.Fprint(a.Stderr, "warning"+strings.TrimPrefix(source.MaskUserinfo(d.Render()), "error"))
	}
	if o.check {
		err := a.reportLock(o, locker.Compare(old, &l.New), l.Failures)
		if o.github {
			err = cmp.Or(a.writeActionsLock(ctx, o, at, resolver), err)
		}
		return err
	}
	if o.github { // first: it can fail, and the two files must not contradict each other
		if err := a.writeActionsLock(ctx, o, at, resolver); err != nil {
			return err
		}
	}
	text, err := l.New.Encode()
	if err == nil {
		err = wholefile.Output(o.output, command.Readable, func(w io.Writer) error { _, err := w.Write(text); return err })
	}
	if err != nil {
		return exit.Coded(exit.System, "writing the lock file: %v", err)
	}
	_, err = fmt.Fprintf(a.Stdout, "%s: %s\n", o.output, summary(old, &l.New))
	return err
}

// walkToLock follows all references of the arguments.
func (a *lockCommands) walkToLock(ctx context.Context, o *lockOptions, old *lock.File, args []string, at *projectToLock, folder string) (*locker.Locker, *source.Resolver, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, nil, exit.Coded(exit.System, "finding the current folder: %v", err)
	}
	if at != nil {
		dir = at.root
	}
	resolver, err := o.event.From.Open(a.Program, folder, dir)
	if err != nil {
		return nil, nil, err
	}
	resolver.Local.Parse = parseToLock
	// To check, names are asked again where that is possible; to write, what is in the file stays unless it is to be updated.
	again := o.update || o.check && !o.event.From.Offline
	resolver.Lock, resolver.Fresh = old, again
	if again {
		resolver.Lock = nil
	}
	if at != nil && !(again && o.github) {
		if resolver.Lock, err = lock.Join(resolver.Lock, o.output, at.pins(), lockfile.Path); err != nil {
			return nil, nil, exit.Coded(exit.Definition, "%v", err).Hinted("step-runner lock --update writes the first one again, with --github both")
		}
	}
	l := &locker.Locker{
		Source: resolver, Old: old, Images: func(ctx context.Context, name string) (string, error) { return source.ImageDigest(ctx, resolver, name) }, KeepGoing: o.check && o.event.From.Offline,
		Variant: func(kind plan.RefKind) string {
			if f := resolver.Fetchers[kind]; f != nil {
				return f.Variant()
			}
			return ""
		},
	}
	for _, arg := range args {
		if err := a.lockArgument(ctx, o, l, arg, dir); err != nil {
			return nil, nil, err
		}
	}
	return l, resolver, nil
}

// lockArgument locks what one argument refers to. A list of steps sees relative references from the current folder, a component
// from its own.
func (a *lockCommands) lockArgument(ctx context.Context, o *lockOptions, l *locker.Locker, arg, dir string) error {
	if image, is := strings.CutPrefix(arg, plan.ImagePrefix); is {
		return l.Image(ctx, image)
	}
	if info, err := os.Stat(arg); arg != "-" && (err != nil || info.IsDir()) {
		ref, err := components.Reference(arg)
		if err != nil {
			return err
		}
		return l.Reference(ctx, ref, dir)
	}
	switch {
	case arg == "-":
	case project.IsWorkflow(arg):
		return a.lockWorkflow(ctx, o, l, arg)
	case findings.IsPipeline(arg):
		return a.lockPipeline(ctx, o, l, arg)
	}
	name, text, err := a.Read(arg)
	if err != nil {
		return err
	}
	component, err := gitlabsteps.ParseSteps(name, text)
	if err != nil {
		return err
	}
	if arg != "-" && !components.IsList(component) {
		full, err := filepath.Abs(arg)
		if err != nil {
			return err
		}
		dir = filepath.Dir(full)
	}
	return l.Definition(ctx, component, text, dir)
}

// reportLock says how a lock file differs from what it should be. That it holds more than is needed is not a fault.
func (a *lockCommands) reportLock(o *lockOptions, all []locker.Difference, failures []locker.Failure) error {
	bad := len(failures) > 0
	for _, d := range all {
		bad = bad || d.Change != locker.Unused
		if _, err := fmt.Fprintln(a.Stdout, d); err != nil {
			return err
		}
	}
	for _, f := range failures {
		if _, err := fmt.Fprintf(a.Stdout, "unavailable: %s: %s\n", f.Reference, source.MaskUserinfo(f.Err.Error())); err != nil {
			return err
		}
	}
	if bad {
		return exit.Shown(exitNotLocked)
	}
	what := "is complete, and every name resolves to what it records"
	if o.event.From.Offline {
		what = "is complete"
	}
	_, err := fmt.Fprintf(a.Stdout, "%s %s\n", o.output, what)
	return err
}

// summary says what was written.
func summary(old, now *lock.File) string {
	total := 0
	for _, p := range now.Packages {
		total += len(p.Components)
	}
	counts := map[locker.Change]int{}
	for _, d := range locker.Compare(old, now) {
		counts[d.Change]++
	}
	text := quantity.Count(len(now.Packages), "package") + ", " + quantity.Count(total, "component")
	if n := len(now.Images); n > 0 {
		text += ", " + quantity.Count(n, "image")
	}
	for _, part := range []struct {
		change locker.Change
		word   string
	}{{locker.Missing, "added"}, {locker.Moved, "moved"}, {locker.Changed, "changed"}, {locker.Unused, "dropped"}} {
		if n := counts[part.change]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, part.word)
		}
	}
	return text
}
