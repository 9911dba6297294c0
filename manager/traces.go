package manager

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/job"
	"github.com/rungci/rung/manager/traces"
)

// TriedTraces is the folder for the traces of jobs of Try, within that of the others.
const TriedTraces = "tried"

// tracing says what becomes of the trace of a job; nil makes none.
func (m *Manager) tracing(r *run, settings *config.Runner) *job.Tracing {
	t := settings.Traces
	out := &job.Tracing{Digest: func() string { return m.digest.of(m.o.Program) }}
	if t.Dir != "" {
		dir := t.Dir
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(m.o.State, dir)
		}
		if r.tried() { // GitLab's job of that number has its own
			dir = filepath.Join(dir, TriedTraces)
		}
		of := traces.Of{GitLab: settings.URL, Project: r.from.Info.ProjectID, Job: r.from.ID}
		out.Keep = func(file string) (string, error) {
			return m.traces.Take(file, of, traces.Options{Dir: dir, Keep: t.Keep, MaxAge: t.MaxAge, Key: t.Key})
		}
	}
	if t.Artifact == config.TraceAlways || t.Artifact != config.TraceNever && r.traced {
		out.Pack = func(file string, to io.Writer) error {
			if t.Dir == "" { // else it has been signed
				if err := traces.Sign(file, t.Key); err != nil {
					return err
				}
			}
			return traces.Pack(file, to)
		}
	}
	if m.o.Telemetry.Traces() {
		out.Export = func(file string) error { return m.o.Telemetry.Steps(file, r.span()) }
	}
	if out.Keep == nil && out.Pack == nil && out.Export == nil {
		return nil
	}
	return out
}

// digest is that of the step-runner that runs here, which is not one that came with a job's image.
type digest struct {
	once sync.Once
	text string
}

// of is "sha256:…", or empty where there is no such program.
func (d *digest) of(program func(system, arch string) (string, error)) string {
	d.once.Do(func() {
		name, err := program(runtime.GOOS, runtime.GOARCH)
		if err != nil {
			return
		}
		file, err := os.Open(name)
		if err != nil {
			return
		}
		defer file.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, file); err == nil {
			d.text = "sha256:" + hex.EncodeToString(sum.Sum(nil))
		}
	})
	return d.text
}
