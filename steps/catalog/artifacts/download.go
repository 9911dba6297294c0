package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"

	"github.com/rungci/rung/internal/pack"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
	"github.com/rungci/rung/steps/catalog/transfer"
	"github.com/rungci/rung/steps/value"
)

// maxRounds bounds how often a step may try, as ARTIFACT_DOWNLOAD_ATTEMPTS is bounded.
const maxRounds = 10

type downloadInputs struct {
	From     []dependency `json:"from"`
	Attempts float64      `json:"attempts"`

	transfer.Certificates
}

// dependency is another job whose artifacts are wanted.
type dependency struct {
	Name     string `json:"name"`
	File     string `json:"file"`
	URL      string `json:"url"`
	Token    string `json:"token"`
	Optional bool   `json:"optional"`
}

// Download is builtin://artifacts/download.
func Download(ctx context.Context, call *program.Call) error {
	var in downloadInputs
	if err := call.Decode(&in); err != nil {
		return err
	}
	for i, d := range in.From {
		if (d.File == "") == (d.URL == "") {
			return fmt.Errorf("from[%d] (%q) must have a file or a url, and not both", i, d.Name)
		}
	}
	c, err := client(call, in.Certificates)
	if err != nil {
		return err
	}
	files := 0
	for _, d := range in.From {
		n, err := d.fetch(ctx, call, c, min(max(int(in.Attempts), 1), maxRounds))
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case d.Optional && (errors.Is(err, fs.ErrNotExist) || transfer.IsStatus(err, http.StatusNotFound)):
			fmt.Fprintf(call.Stdout, "%s has no artifacts\n", d.Name)
		case err != nil:
			return fmt.Errorf("the artifacts of %s: %w", d.Name, err)
		}
		files += n
	}
	return call.Output("files", value.OfInt(int64(files)))
}

// fetch brings in the artifacts of a job, and returns how many entries they have. What may be better next time is tried as often as asked.
func (d *dependency) fetch(ctx context.Context, call *program.Call, c *transfer.Client, rounds int) (int, error) {
	for round := 1; ; round++ {
		n, err := d.once(ctx, call, c)
		var damaged *pack.FormatError
		var network *transfer.NetworkError
		var status *transfer.StatusError
		again := errors.As(err, &network) || errors.As(err, &status) && status.Temporary() || d.URL != "" && errors.As(err, &damaged)
		if !again || round >= rounds || ctx.Err() != nil {
			return n, err
		}
		selection.Warn(call, "the artifacts of %s: %v; trying again", d.Name, err)
	}
}

// maxWarnings is how many entries that are left out are named.
const maxWarnings = 20

func (d *dependency) once(ctx context.Context, call *program.Call, c *transfer.Client) (int, error) {
	fmt.Fprintf(call.Stdout, "Downloading artifacts of %s...\n", d.Name)
	f, done, err := d.open(ctx, call, c)
	if err != nil {
		return 0, err
	}
	defer done()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	summary, err := pack.Extract(ctx, f, info.Size(), call.WorkDir, pack.ExtractOptions{NoGit: true})
	if err != nil {
		return 0, err
	}
	for i, w := range summary.Warnings {
		if i == maxWarnings {
			selection.Warn(call, "%d more entries are left out", len(summary.Warnings)-i)
			break
		}
		selection.Warn(call, "%s", w)
	}
	fmt.Fprintf(call.Stdout, "Unpacked %s, %d bytes\n", selection.Count(summary.Entries, "entry", "entries"), summary.Bytes)
	return summary.Entries, nil
}

// open returns the archive, and what gives it up.
func (d *dependency) open(ctx context.Context, call *program.Call, c *transfer.Client) (*os.File, func(), error) {
	if d.File != "" {
		f, err := os.Open(absolute(call, d.File))
		if err != nil {
			return nil, nil, err
		}
		return f, func() { f.Close() }, nil
	}
	u, err := url.Parse(d.URL)
	if err != nil {
		return nil, nil, errors.New("the address cannot be read; it is like https://HOST/api/v4/jobs/ID/artifacts")
	}
	query := u.Query()
	if !query.Has("direct_download") { // the object store may be reached from here without GitLab between
		query.Set("direct_download", "true")
		u.RawQuery = query.Encode()
	}
	f, err := os.CreateTemp("", "artifacts-*.zip")
	if err != nil {
		return nil, nil, err
	}
	done := func() { f.Close(); os.Remove(f.Name()) }
	header := http.Header{}
	if d.Token != "" {
		header.Set(tokenHeader, d.Token)
	}
	if _, _, err := c.Download(ctx, transfer.Request{URL: u.String(), Header: header, Secret: []string{tokenHeader}}, f); err != nil {
		done()
		return nil, nil, explain(err)
	}
	return f, done, nil
}
