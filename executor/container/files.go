package container

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/executor/host/remotefiles"
)

// Send runs `step-runner host unpack` in the job's container. The engine could unpack as well, but as its own root, and through every
// link that a job has planted.
func (v *environment) Send(ctx context.Context, dir string, in io.Reader) error {
	ctx, end := v.Within(ctx)
	defer end()
	if !path.IsAbs(dir) {
		return fmt.Errorf("files are sent to a folder by its absolute path, not %q", dir)
	}
	files := remotefiles.Client{Run: func(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) (int, error) {
		return v.Shell(ctx, &executor.Shell{Args: append([]string{programFile, "host"}, args...), Dir: "/", Stdin: in, Stdout: out, Stderr: errs})
	}}
	if err := files.Unpack(ctx, dir, in); err != nil {
		return fmt.Errorf("sending files to the job's container: %w", err)
	}
	return nil
}

// Fetch copies files out of the job's container.
func (v *environment) Fetch(ctx context.Context, name string, out io.Writer) error {
	ctx, end := v.Within(ctx)
	defer end()
	if !path.IsAbs(name) {
		return fmt.Errorf("files are fetched by their absolute path, not %q", name)
	}
	if err := v.Err(); err != nil {
		return err
	}
	archive, err := v.executor.client.Containers.ReadFiles(ctx, v.container, path.Clean(name))
	if engine.Status(err) == http.StatusNotFound {
		return &fs.PathError{Op: "fetching", Path: name, Err: fs.ErrNotExist}
	}
	if err != nil {
		return v.executor.failed(ctx, "fetching "+name, err)
	}
	defer archive.Close()
	if _, err := io.Copy(out, archive); err != nil {
		return fmt.Errorf("fetching %s: %w", name, err)
	}
	return nil
}
