package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/publish/bundle"
	"github.com/rungci/rung/steps/replay"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/lock"
	"github.com/rungci/rung/steps/trace"
)

func (a *app) traceBundleCommand() *cobra.Command {
	s := a.newSession()
	var out string
	var noLocal, asJSON bool
	cmd := &cobra.Command{
		Use:   "bundle TRACE -o FILE",
		Short: "Pack a trace with its components into one file",
		Long: `bundle packs a trace and every component of its run into one file, which replays on another machine without a network, and from which
run and ci take components with --bundle. Components that were fetched come from the cache, or from where they were; those in
local folders have to be what they were when the trace was recorded. The same trace and components give the same bytes.

A bundle holds no secrets that the trace does not hold. It holds the files of the components.

` + readerExitCodesHelp,
		Example: `  step-runner trace bundle trace.json -o run.bundle
  step-runner replay run.bundle --offline
  step-runner run steps.yml --bundle run.bundle --offline`,
		Args: arguments(1, 1, "the trace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			defer s.close()
			if out == "" {
				return usage("-o is missing: the file to write")
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
	f.StringVar(&s.workDir, "work-dir", "", "look for local components in `DIR` (default: the current folder)")
	s.from.flags(f)
	for _, name := range []string{"lock-file", "locked", "refresh"} { // the trace is the lock
		_ = f.MarkHidden(name)
	}
	return cmd
}

// writeBundle makes the bundle of the trace at path.
func (a *app) writeBundle(ctx context.Context, s *session, path, out string, local bool) (*bundle.Manifest, error) {
	t, err := readTrace(path)
	if err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	if bundle.IsBundle(path) {
		b, err := openBundle(path)
		if err != nil {
			return nil, err
		}
		s.components.Stores = append(s.components.Stores, b)
	}
	workDir, err := s.directory()
	if err != nil {
		return nil, err
	}
	items, err := bundle.Collect(ctx, t, s.components, workDir, local)
	if err != nil {
		var changed *replay.ChangedError
		if errors.As(err, &changed) {
			return nil, coded(exitDenied, "%v", changed).hinted("make the bundle in a checkout of that time, or leave local components out with --no-local")
		}
		return nil, replayError(err)
	}
	var m *bundle.Manifest
	err = a.writeTo(out, func(w io.Writer) error {
		m, err = bundle.Write(w, traceDocument(path, t), items)
		return err
	})
	return m, err
}

// traceDocument opens the document of a trace with its logs: the file, if it is that.
func traceDocument(path string, t *trace.Trace) func() (io.ReadCloser, error) {
	if !t.Incomplete && !t.LogsBeside() && !bundle.IsBundle(path) && !strings.HasSuffix(path, trace.EventsSuffix) {
		return func() (io.ReadCloser, error) { return os.Open(path) }
	}
	return func() (io.ReadCloser, error) {
		in, out := io.Pipe()
		go func() { out.CloseWithError(trace.Export(out, t, "json")) }()
		return in, nil
	}
}

// showBundle prints what is in a bundle.
func (a *app) showBundle(m *bundle.Manifest, path string, asJSON bool) error {
	if asJSON {
		return writeJSON(a.stdout, m)
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
		if _, err := fmt.Fprintf(a.stdout, "%-8s %s  %8s  %s\n", kind, shortDigest(p.Digest), bytesText(p.Bytes), strings.Join(p.Components, ", ")); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(a.stdout, "%s: the trace (%s) and %s, %s\n", path, bytesText(m.Trace.Bytes), count(len(m.Packages), "package"), bytesText(info.Size()))
	return err
}

// shortDigest is enough of a content digest to tell it from others.
func shortDigest(digest string) string { return strings.TrimPrefix(digest, "sha256:")[:12] }

// openBundle opens a bundle. It stays open until the program ends.
func openBundle(path string) (*bundle.Bundle, error) {
	b, err := bundle.Open(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return nil, coded(exitDefinition, "%v", err)
	}
	return b, err
}

// addBundles lets a resolver use the components in bundles. References that the lock file does not have are what they were in the
// bundles' runs, unless only what the lock file has may be used.
func addBundles(r *source.Resolver, o *sourceFlags) error {
	for _, path := range o.bundles {
		b, err := openBundle(path)
		if err != nil {
			return err
		}
		r.Stores = append(r.Stores, b)
		if o.locked {
			continue
		}
		t, err := b.Trace()
		if err != nil {
			return coded(exitDefinition, "%v", err)
		}
		known, err := replay.Lock(t, t.Runtime.OS == runtime.GOOS && t.Runtime.Arch == runtime.GOARCH)
		if err != nil {
			return replayError(err)
		}
		merged := &lock.File{Version: lock.Version}
		if r.Lock != nil {
			merged.Packages = r.Lock.Packages
		}
		for _, p := range known.Packages {
			if merged.Find(p.Kind, p.URL, p.Rev) == nil {
				merged.Packages = append(merged.Packages, p)
			}
		}
		r.Lock = merged
	}
	return nil
}
