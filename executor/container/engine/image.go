package engine

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxProgress bounds a line about the progress of a pull, in bytes.
const maxProgress = 1 << 20

// Images are the calls about images.
type Images struct{ client *Client }

// Image is what is known of an image.
type Image struct {
	ID           string
	RepoDigests  []string // "name@sha256:…"
	RepoTags     []string // "name:tag"
	Os           string
	Architecture string
	Variant      string
	Config       struct {
		User         string
		Env          []string
		Entrypoint   []string
		ExposedPorts map[string]struct{} // "80/tcp"
	}
}

// ListedImage is what is known of each image.
type ListedImage struct {
	ID          string `json:"Id"`
	RepoTags    []string
	RepoDigests []string
	Size        int64 // bytes, with the layers that other images have too
	Containers  int64 // that use it; only as Client.Usage has it
}

// List returns all images, but for those that are only parts of others.
func (c Images) List(ctx context.Context) ([]ListedImage, error) {
	var found []ListedImage
	return found, c.client.get(ctx, "/images/json", nil, &found)
}

// Remove removes an image by its ID, or a name of it, and with its last name the image. The error is http.StatusConflict while a container uses it.
func (c Images) Remove(ctx context.Context, name string) error {
	return c.client.remove(ctx, "/images/"+name, nil)
}

// Auth is what a registry is shown; the zero value is nothing.
type Auth struct {
	Registry string `json:"serveraddress"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	Token    string `json:"identitytoken,omitempty"` // instead of a password
}

// Progress is a line about a pull.
type Progress struct {
	ID             string // of a layer
	Status         string // "Downloading"
	ProgressDetail struct {
		Current, Total int64 // bytes
	}
}

// Inspect returns what is known of an image, by its name or id.
func (c Images) Inspect(ctx context.Context, name string) (*Image, error) {
	found := &Image{}
	return found, c.client.get(ctx, "/images/"+name+"/json", nil, found)
}

// Pull makes the engine fetch an image from its registry, and tells of its progress. platform is system/architecture/variant;
// "" is the engine's own.
func (c Images) Pull(ctx context.Context, name, platform string, auth Auth, tell func(Progress)) error {
	repository, tag := splitTag(name)
	q := &request{method: http.MethodPost, path: "/images/create", query: url.Values{"fromImage": {repository}, "tag": {tag}}}
	if platform != "" {
		q.query.Set("platform", platform)
	}
	if auth != (Auth{}) {
		text, _ := json.Marshal(auth) // strings alone cannot fail
		q.header = http.Header{"X-Registry-Auth": {base64.URLEncoding.EncodeToString(text)}}
	}
	body, err := c.client.open(ctx, q)
	if err != nil {
		return err
	}
	defer body.Close()
	err = readProgress(body, tell)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// readProgress reads lines about a pull until it ends, or fails.
func readProgress(in io.Reader, tell func(Progress)) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxProgress)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var line struct {
			Progress
			Error       string // older than the next
			ErrorDetail *struct {
				Code    int
				Message string
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("the engine's answer cannot be understood: %w", err)
		}
		switch {
		case line.ErrorDetail != nil && line.ErrorDetail.Message != "":
			return &Error{Status: line.ErrorDetail.Code, Message: line.ErrorDetail.Message}
		case line.Error != "":
			return &Error{Message: line.Error}
		}
		tell(line.Progress)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the engine's answer: %w", err)
	}
	return nil
}

// splitTag takes the tag or the digest, which is stronger, off an image's name. Without one an engine would pull all that there are.
func splitTag(name string) (repository, tag string) {
	name, digest, hasDigest := strings.Cut(name, "@")
	if slash, colon := strings.LastIndexByte(name, '/'), strings.LastIndexByte(name, ':'); colon > slash {
		name, tag = name[:colon], name[colon+1:]
	}
	if hasDigest {
		tag = digest
	}
	return name, cmp.Or(tag, "latest")
}
