package trust

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/quantity"
	"github.com/rungci/rung/cmd/step-runner/command/session"
	"github.com/rungci/rung/cmd/step-runner/command/tracefile"
	"github.com/rungci/rung/internal/bytesize"
	"github.com/rungci/rung/publish/bundle"
	"github.com/rungci/rung/steps/replay"
)

func (a *app) traceBundleCommand() *cobra.Command {
	s := session.New(a.Program)
	var out string
	var noLocal, asJSON bool
	cmd := &cobra.Command{
		Use:   "bundle TRACE -o FILE",
		Short: "Bundle a trace with its components",
		Long: `bundle packs a trace and all components of its run into one file. The file replays on another machine without a network, and
run and ci take components from it with --bundle. Fetched components come from the cache or their source; local ones must
not have changed since the run. The same trace and components produce the same bytes.

A bundle contains the files of the components, and no secrets that the trace does not contain.

` + exit.ReaderCodesHelp,
		Example: `  step-runner trace bundle trace.json -o run.bundle
  step-runner replay run.bundle --offline
  step-runner run steps.yml --bundle run.bundle --offline`,
		Args: command.Arguments(1, 1, "the trace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			defer s.Close()
			if out == "" {
				return exit.Usage("-o is missing: the file to write")
			}
			m, err := a.writeBundle(cmd.Context(), s, args[0], out, !noLocal)
			if err != nil {
				return err
			}
			return a.showBundle(m, out, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "", "write the bundle to `FILE`")
	f.BoolVar(&noLocal, "no-local", false, "leave out components in local folders")
	f.BoolVar(&asJSON, "json", false, "print what is in the bundle as JSON")
	f.StringVar(&s.WorkDir, "work-dir", "", "look for local components in `DIR` (default: the current folder)")
	s.From.Declare(f)
	for _, name := range []string{"lock-file", "locked", "refresh"} { // the trace is the lock
		_ = f.MarkHidden(name)
	}
	return cmd
}

// writeBundle makes the bundle of the trace at path.
func (a *app) writeBundle(ctx context.Context, s *session.Session, path, out string, local bool) (*bundle.Manifest, error) {
	l, err := tracefile.Load(path)
	if err != nil {
		return nil, err
	}
	if err := l.Trace.CheckLogs(); err != nil {
		return nil, exit.Coded(exit.Definition, "%s: %v", path, err)
	}
	if err := s.Open(); err != nil {
		return nil, err
	}
	if packages := l.Packages(); packages != nil {
		s.Components.Stores = append(s.Components.Stores, packages)
	}
	workDir, err := s.Directory()
	if err != nil {
		return nil, err
	}
	items, err := bundle.Collect(ctx, l.Trace, s.Components, workDir, local)
	if err != nil {
		var changed *replay.ChangedError
		if errors.As(err, &changed) {
			return nil, exit.Coded(exit.Denied, "%v", changed).Hinted("make the bundle in a checkout of that time, or leave local components out with --no-local")
		}
		return nil, err
	}
	var m *bundle.Manifest
	err = a.WriteTo(out, command.Private, func(w io.Writer) error {
		m, err = bundle.Write(w, l.Open, items)
		return err
	})
	return m, err
}

// showBundle prints what is in a bundle.
func (a *app) showBundle(m *bundle.Manifest, path string, asJSON bool) error {
	if asJSON {
		return command.WriteJSON(a.Stdout, m)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	for _, p := range m.Packages {
		kind := "package"
		if p.Local {
			kind = "local"
		}
		if _, err := fmt.Fprintf(a.Stdout, "%-8s %s  %8s  %s\n", kind, shortDigest(p.Digest), bytesize.Format(p.Bytes), strings.Join(p.Components, ", ")); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(a.Stdout, "%s: the trace (%s) and %s, %s\n", path, bytesize.Format(m.Trace.Bytes), quantity.Count(len(m.Packages), "package"), bytesize.Format(info.Size()))
	return err
}

// shortDigest is enough of a content digest to tell it from others.
func shortDigest(digest string) string { return strings.TrimPrefix(digest, "sha256:")[:12] }
