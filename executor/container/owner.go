package container

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
)

const (
	// maxPasswd bounds the files of users and groups of an image, in bytes.
	maxPasswd = 4 << 20
	// maxLinks bounds how many links to such a file are followed.
	maxLinks = 10
)

// owner is who the job's files belong to.
type owner struct{ uid, gid int }

// findOwner finds out who the job's container runs as: the user that the job names, or else the image, by name or number, with
// or without a group. Names are those of the image.
func (v *preparation) findOwner(ctx context.Context) (owner, error) {
	spec := cmp.Or(v.user(), v.image.user)
	user, group, hasGroup := strings.Cut(spec, ":")
	if user == "" && group == "" {
		return owner{}, nil
	}
	var o owner
	var err error
	number, numberErr := strconv.Atoi(user)
	switch {
	case user == "":
	case numberErr == nil && hasGroup && isNumber(group): // nothing to look up
		o.uid = number
	default:
		line, err := v.lookUp(ctx, "/etc/passwd", func(f []string) bool {
			return len(f) > 3 && (f[0] == user || numberErr == nil && f[2] == user)
		})
		if err != nil {
			return o, err
		}
		switch {
		case line != nil:
			o.uid, _ = strconv.Atoi(line[2])
			o.gid, _ = strconv.Atoi(line[3])
		case numberErr == nil:
			o.uid = number
		default:
			return o, v.noSuch("user", user)
		}
	}
	if !hasGroup || group == "" {
		return o, nil
	}
	if o.gid, err = strconv.Atoi(group); err == nil {
		return o, nil
	}
	line, err := v.lookUp(ctx, "/etc/group", func(f []string) bool { return len(f) > 2 && f[0] == group })
	if err != nil {
		return o, err
	}
	if line == nil {
		return o, v.noSuch("group", group)
	}
	o.gid, _ = strconv.Atoi(line[2])
	return o, nil
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

func (v *preparation) noSuch(what, name string) error {
	return &executor.UserError{
		Message: fmt.Sprintf("image %s has no %s %q", v.job.Image.Name, what, name), Hint: "name one of its own, or a number",
	}
}

// lookUp returns the fields of the first line of a file in the container that fits; nil when there is none, or no such file.
func (v *preparation) lookUp(ctx context.Context, file string, fits func([]string) bool) ([]string, error) {
	text, err := v.read(ctx, file)
	if err != nil && strings.Contains(err.Error(), "unknown user") { // Podman looks itself
		return nil, nil
	}
	if err != nil {
		return nil, v.executor.failed(ctx, "reading "+file+" of the image", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxPasswd)
	for lines.Scan() {
		if fields := strings.Split(lines.Text(), ":"); fits(fields) {
			return fields, nil
		}
	}
	return nil, nil
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
			text, err = io.ReadAll(io.LimitReader(in, maxPasswd))
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
