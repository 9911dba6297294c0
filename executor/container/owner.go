package container

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/executor/imageuser"
)

// maxLinks bounds how many links to a file of users are followed.
const maxLinks = 10

// owner is who the job's files belong to.
type owner struct{ uid, gid int }

// findOwner finds out who the job's container runs as: the user that the job names, or else the image.
func (v *preparation) findOwner(ctx context.Context) (owner, error) {
	user, err := imageuser.Find(cmp.Or(v.user(), v.image.user), func(file string) ([]byte, error) {
		text, err := v.read(ctx, file)
		if err != nil && strings.Contains(err.Error(), "unknown user") { // Podman looks itself
			return nil, nil
		}
		return text, err
	})
	var unknown *imageuser.UnknownError
	if errors.As(err, &unknown) {
		err = &executor.UserError{
			Message: fmt.Sprintf("image %s has %v", v.job.Image.Name, unknown), Hint: "name one of its own, or a number", Err: err,
		}
		return owner{}, err
	}
	return owner{user.UID, user.GID}, v.executor.failed(ctx, "finding the user of the job's container", err)
}

// read returns the content of a file in the container; nil where there is none.
func (v *preparation) read(ctx context.Context, file string) ([]byte, error) {
	for range maxLinks {
		archive, err := v.executor.client.Containers.ReadFiles(ctx, v.container, file)
		if engine.Status(err) == http.StatusNotFound {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		in := tar.NewReader(archive)
		header, err := in.Next()
		var text []byte
		if err == nil && header.Typeflag == tar.TypeReg {
			text, err = io.ReadAll(io.LimitReader(in, imageuser.MaxFile))
		}
		archive.Close()
		if err != nil || header.Typeflag != tar.TypeSymlink {
			return text, err
		}
		if file = header.Linkname; !path.IsAbs(file) {
			file = path.Join("/etc", file)
		}
	}
	return nil, errors.New("too many symbolic links")
}
