package artifacts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/internal/glob"
	"github.com/rungci/rung/internal/pack"
	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
	"github.com/rungci/rung/steps/catalog/transfer"
	"github.com/rungci/rung/steps/value"
)

type uploadInputs struct {
	Name      string   `json:"name"`
	Paths     []string `json:"paths"`
	Exclude   []string `json:"exclude"`
	Untracked bool     `json:"untracked"`
	Type      string   `json:"type"`
	Format    string   `json:"format"`
	ExpireIn  string   `json:"expire_in"`
	Access    string   `json:"access"`
	Location  string   `json:"location"`
	URL       string   `json:"url"`
	Token     string   `json:"token"`
	Metadata  origin   `json:"metadata"`
	Level     string   `json:"level"`
	// In seconds; 0 is none, and that of transfer.
	Timeout         float64 `json:"timeout"`
	ResponseTimeout float64 `json:"response_timeout"`

	transfer.Certificates
}

// result is what the step gives.
type result struct {
	file   string
	files  int
	bytes  int64
	digest string
}

func (r *result) output(call *program.Call) error {
	return errors.Join(
		call.Output("file", value.OfString(r.file)), call.Output("files", value.OfInt(int64(r.files))),
		call.Output("bytes", value.OfInt(r.bytes)), call.Output("digest", value.OfString(r.digest)),
	)
}

// Upload is builtin://artifacts/upload. That nothing matches is a warning, and no failure.
func Upload(ctx context.Context, call *program.Call) error {
	var in uploadInputs
	if err := call.Decode(&in); err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	entries, err := selection.Find(ctx, call, selection.Request{
		Paths: in.Paths, Exclude: in.Exclude, Untracked: in.Untracked, Without: []string{in.Location},
	})
	if err != nil {
		return err
	}
	if in.Format == "gzip" || in.Format == "raw" {
		entries = onlyFiles(call, entries)
	}
	r := &result{}
	if len(entries) == 0 {
		selection.Warn(call, "no files to upload: %s", in.what())
		return r.output(call)
	}
	if in.URL != "" {
		r, err = in.send(ctx, call, entries)
	} else {
		r, err = in.keep(ctx, call, entries)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", in.what(), err)
	}
	return r.output(call)
}

// check reports what the inputs have wrong, and completes them.
func (in *uploadInputs) check() error {
	if in.Type == "" {
		in.Type = "archive"
	}
	if _, ok := extensions[in.Format]; !ok {
		return fmt.Errorf("the format %q is not known; known are zip, gzip, raw, zipzstd and tarzstd", in.Format)
	}
	if in.Format == "" {
		in.Format = "zip"
	}
	if _, err := pack.ParseLevel(in.Level); err != nil {
		return err
	}
	if safeName(in.Type) != in.Type {
		return fmt.Errorf("%q is not a type of artifacts", in.Type)
	}
	switch {
	case in.URL == "" && in.Location == "":
		return errors.New("artifacts need a location, or the address of GitLab as url")
	case in.URL != "" && in.Token == "":
		return errors.New("the address of GitLab needs the job's token")
	}
	return nil
}

func (in *uploadInputs) what() string {
	if in.Type == "archive" {
		return "artifacts"
	}
	return "report " + in.Type
}

// base is the name without its ending.
func (in *uploadInputs) base() string { return base(in.Name) }

func base(name string) string { return cmp.Or(safeName(name), "artifacts") }

// fileName is the name of the archive in a folder.
func (in *uploadInputs) fileName() string { return FileName(in.Name, in.Type, in.Format) }

// FileName is the name of the file that builtin://artifacts/upload leaves in its location, for inputs of it. It is one plain name.
func FileName(name, kind, format string) string {
	if kind != "archive" && kind != "" {
		return safeName(kind) + extensions[format]
	}
	return base(name) + extensions[format]
}

// MetadataName is the name of the description beside an archive.
func MetadataName(name string) string { return pack.MetadataName(base(name)) }

// keep puts the archive into the folder.
func (in *uploadInputs) keep(ctx context.Context, call *program.Call, entries []glob.Entry) (*result, error) {
	dir := absolute(call, in.Location)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	r, path, err := in.pack(ctx, call, dir, selection.Names(entries))
	if err != nil {
		return nil, err
	}
	defer os.Remove(path) // when it did not get its name
	r.file = in.fileName()
	if in.describes() {
		text, err := in.Metadata.statement(ctx, call, selection.Names(entries))
		if err == nil {
			err = wholefile.WriteText(filepath.Join(dir, MetadataName(in.Name)), 0o644, text)
		}
		if err != nil {
			return nil, fmt.Errorf("writing the metadata: %w", err)
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		return nil, err
	}
	if err := os.Rename(path, filepath.Join(dir, r.file)); err != nil {
		return nil, err
	}
	fmt.Fprintf(call.Stdout, "Kept %s: %s, %d bytes\n", r.file, selection.Count(len(entries), "entry", "entries"), r.bytes)
	return r, nil
}

// onlyFiles leaves out what is not a file: the formats of reports have no folders and no links.
func onlyFiles(call *program.Call, entries []glob.Entry) []glob.Entry {
	var out []glob.Entry
	for _, e := range entries {
		switch {
		case e.Info.Mode().IsRegular():
			out = append(out, e)
		case !e.Info.IsDir():
			selection.Warn(call, "%q is left out: it is not a regular file", strings.ToValidUTF8(e.Path, "\ufffd"))
		}
	}
	return out
}
