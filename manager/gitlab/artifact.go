package gitlab

import (
	"bytes"
	"context"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
)

// Upload is a file that becomes an artifact of a job.
type Upload struct {
	Name string // of the file
	// Type and Format are as GitLab has them: "archive" and "zip". A job has one artifact of each type.
	Type, Format string
	Data         *io.SectionReader
}

// parts are a body, one after the other.
type parts []*io.SectionReader

// ReadAt implements io.ReaderAt.
func (p parts) ReadAt(into []byte, at int64) (n int, err error) {
	for _, part := range p {
		if at >= part.Size() {
			at -= part.Size()
			continue
		}
		got, err := part.ReadAt(into[n:], at)
		if n += got; n == len(into) {
			return n, nil
		}
		if err != nil && err != io.EOF {
			return n, err
		}
		at = 0
	}
	return n, io.EOF
}

// UploadArtifact uploads an artifact of a job that runs, from where it is. The error is ErrJobGone if it does not run any more.
func (c *Client) UploadArtifact(ctx context.Context, job Ref, u Upload) error {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	_, err := form.CreateFormFile("file", u.Name)
	before := body.Len()
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		return err
	}
	whole := parts{content(body.Bytes()[:before]), u.Data, content(body.Bytes()[before:])}
	header := job.header()
	header.Set("Content-Type", form.FormDataContentType())
	query := url.Values{"artifact_type": {u.Type}, "artifact_format": {u.Format}}
	got, err := c.do(ctx, request{
		method: http.MethodPost, path: job.path("/artifacts?" + query.Encode()), header: header, raw: io.NewSectionReader(whole, 0, int64(body.Len())+u.Data.Size()), accept: []int{http.StatusCreated},
	})
	_, err = reply(got, err)
	return err
}
