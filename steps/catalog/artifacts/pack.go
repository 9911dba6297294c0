package artifacts

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/rungci/rung/internal/pack"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
)

// pack makes the archive as a file of no name yet in a folder; "" is that for temporary files.
func (in *uploadInputs) pack(ctx context.Context, call *program.Call, dir string, names []string) (r *result, path string, err error) {
	f, err := os.CreateTemp(dir, ".artifacts-*.tmp")
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriterSize(f, 1<<18)
	summary, err := in.write(ctx, w, call.WorkDir, names)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return nil, "", err
	}
	for _, warning := range summary.Warnings {
		selection.Warn(call, "%s", warning)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	if err := f.Close(); err != nil {
		return nil, "", err
	}
	digest, err := contentDigest(ctx, call.WorkDir, names)
	if err != nil {
		return nil, "", err
	}
	return &result{files: summary.Entries, bytes: info.Size(), digest: digest}, f.Name(), nil
}

func (in *uploadInputs) write(ctx context.Context, w io.Writer, dir string, names []string) (*pack.Summary, error) {
	level, err := pack.ParseLevel(in.Level)
	if err != nil {
		return nil, err
	}
	o := pack.Options{Level: level, Owners: true}
	switch in.Format {
	case "zip":
		return pack.Zip(ctx, w, dir, names, o)
	case "zipzstd":
		return pack.ZipZstd(ctx, w, dir, names, o)
	case "tarzstd":
		return pack.TarZstd(ctx, w, dir, names, o)
	case "gzip":
		return pack.Gzip(ctx, w, dir, names, o)
	case "raw":
		return pack.Raw(ctx, w, dir, names)
	}
	return nil, fmt.Errorf("the format %q is not known", in.Format)
}

// origin is what is known of the job that makes the artifact.
type origin struct {
	Builder    string   `json:"builder"`
	Source     string   `json:"source"`
	EntryPoint string   `json:"entry_point"`
	JobID      string   `json:"job_id"`
	Variables  []string `json:"variables"`
	StartedOn  string   `json:"started_on"`

	Commit   string `json:"commit"`
	Runner   string `json:"runner"`
	Executor string `json:"executor"`
	Version  string `json:"version"`
}

// describes reports whether metadata are asked for. The runner writes them for zip archives.
func (in *uploadInputs) describes() bool {
	m := &in.Metadata
	return in.Type == "archive" && (m.Builder+m.Source+m.EntryPoint+m.JobID+m.StartedOn != "" || len(m.Variables) > 0)
}

// statement returns the metadata.
func (o *origin) statement(ctx context.Context, call *program.Call, names []string) ([]byte, error) {
	p := pack.Provenance{
		Project: o.Source, Commit: o.Commit, Job: o.EntryPoint, JobID: o.JobID, Variables: o.Variables,
		RunnerID: o.Builder, RunnerName: o.Runner, Executor: o.Executor, Version: o.Version, System: runtime.GOARCH,
		Finished: time.Now().UTC().Truncate(time.Second),
	}
	p.Started = p.Finished
	if o.StartedOn != "" {
		started, err := time.Parse(time.RFC3339, o.StartedOn)
		if err != nil {
			return nil, errors.New("started_on is not a time like 2026-01-31T12:00:00Z")
		}
		p.Started = started
	}
	return pack.Metadata(ctx, call.WorkDir, names, p)
}
