package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/internal/glob"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
	"github.com/rungci/rung/steps/catalog/transfer"
)

// send uploads the archive to GitLab. The metadata have no place of their own there, and are part of the archive.
func (in *uploadInputs) send(ctx context.Context, call *program.Call, entries []glob.Entry) (*result, error) {
	target, err := in.target()
	if err != nil {
		return nil, err
	}
	names := selection.Names(entries)
	if in.describes() {
		name, undo, err := in.addMetadata(ctx, call, names)
		if err != nil {
			return nil, fmt.Errorf("writing the metadata: %w", err)
		}
		defer undo()
		names = append(names, name)
	}
	r, path, err := in.pack(ctx, call, "", names)
	if err != nil {
		return nil, err
	}
	defer os.Remove(path)
	r.file = in.base() + extensions[in.Format]
	body, contentType, size, err := form(path, r.file)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(call.Stdout, "Uploading %s: %s, %d bytes\n", in.what(), selection.Count(r.files, "entry", "entries"), r.bytes)
	c, err := client(call, in.Certificates)
	if err != nil {
		return nil, err
	}
	c.Limit, c.Stall = seconds(in.Timeout), seconds(in.ResponseTimeout)
	resp, err := c.Do(ctx, transfer.Request{
		Method: http.MethodPost, URL: target, Secret: []string{tokenHeader}, Body: body, Size: size,
		Header: http.Header{tokenHeader: {in.Token}, "Content-Type": {contentType}, "Accept": {"application/json"}},
	})
	if err != nil {
		return nil, explain(err)
	}
	return r, resp.Body.Close()
}

// maxSeconds bounds a time limit.
const maxSeconds = 365 * 24 * 3600

func seconds(n float64) time.Duration {
	return time.Duration(max(0, min(n, maxSeconds)) * float64(time.Second))
}

// target is GitLab's address with what it should know of the file.
func (in *uploadInputs) target() (string, error) {
	u, err := url.Parse(in.URL)
	if err != nil {
		return "", errors.New("the address of GitLab cannot be read; it is like https://HOST/api/v4/jobs/ID/artifacts")
	}
	query := u.Query()
	for name, text := range map[string]string{"artifact_format": in.Format, "artifact_type": in.Type, "expire_in": in.ExpireIn, "accessibility": access(in.Access)} {
		if text != "" {
			query.Set(name, text)
		}
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// access is what GitLab's API has of `artifacts:access`: artifacts are for everybody, or not. Who else sees them is decided by the
// job's definition, which GitLab has.
func access(text string) string {
	switch text {
	case "":
		return ""
	case "all":
		return "public"
	}
	return "private"
}

// addMetadata writes the metadata into the work directory, and returns what takes them away again.
func (in *uploadInputs) addMetadata(ctx context.Context, call *program.Call, names []string) (name string, undo func(), err error) {
	text, err := in.Metadata.statement(ctx, call, names)
	if err != nil {
		return "", nil, err
	}
	name = MetadataName(in.Name)
	root, err := os.OpenRoot(call.WorkDir)
	if err != nil {
		return "", nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return "", nil, err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Close())
	undo = func() { os.Remove(filepath.Join(call.WorkDir, name)) }
	if err != nil {
		undo()
		return "", nil, err
	}
	return name, undo, nil
}

// form returns the content of a form that holds a file, which is read as it is sent, and its size.
func form(path, name string) (open func() (io.ReadCloser, error), contentType string, size int64, err error) {
	file, size, err := transfer.File(path)
	if err != nil {
		return nil, "", 0, err
	}
	var frame strings.Builder
	w := multipart.NewWriter(&frame)
	if _, err := w.CreateFormFile("file", name); err != nil {
		return nil, "", 0, err
	}
	head := frame.String()
	frame.Reset()
	if err := w.Close(); err != nil {
		return nil, "", 0, err
	}
	tail := frame.String()
	open = func() (io.ReadCloser, error) {
		f, err := file()
		if err != nil {
			return nil, err
		}
		return struct {
			io.Reader
			io.Closer
		}{io.MultiReader(strings.NewReader(head), f, strings.NewReader(tail)), f}, nil
	}
	return open, w.FormDataContentType(), int64(len(head)) + size + int64(len(tail)), nil
}

// explain says what to do about the answers that people meet.
func explain(err error) error {
	switch {
	case transfer.IsStatus(err, http.StatusRequestEntityTooLarge):
		return fmt.Errorf("%w; the file is larger than GitLab takes: leave files out, or raise the limit of the project", err)
	case transfer.IsStatus(err, http.StatusUnauthorized, http.StatusForbidden):
		return fmt.Errorf("%w; the job's token is wrong, or the job has ended", err)
	}
	return err
}
