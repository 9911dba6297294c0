package session

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/archive"
	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/internal/worktree"
)

// StoreFolder is the folder beside the project that stands for the store.
const StoreFolder = "store"

// Parcel is a file or folder on this machine that is sent, and where it goes below the environment's store.
type Parcel struct{ From, To string }

// Target is where a parcel goes in an environment.
func Target(layout executor.Layout, p Parcel) string {
	return path.Join(filepath.ToSlash(layout.Temp), StoreFolder, p.To)
}

// Send sends parcels to an environment. Those that are not there are left out.
func Send(ctx context.Context, env executor.Environment, parcels []Parcel) error {
	var there []Parcel
	for _, p := range parcels {
		if _, err := os.Stat(p.From); err == nil {
			there = append(there, p)
		}
	}
	if there == nil {
		return nil
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(packParcels(ctx, w, there)) }()
	err := Unpack(ctx, env, path.Join(filepath.ToSlash(env.Layout().Temp), StoreFolder), r)
	r.CloseWithError(err)
	return err
}

// Unpack unpacks an archive below dir in an environment. It ends when the environment does.
func Unpack(ctx context.Context, env executor.Environment, dir string, in io.Reader) error {
	ctx, end := Within(ctx, env)
	defer end()
	r, w := io.Pipe() // so that a reader that does not end holds nothing up
	go func() {
		_, err := io.Copy(w, in)
		w.CloseWithError(err)
	}()
	defer context.AfterFunc(ctx, func() { w.CloseWithError(context.Cause(ctx)) })()
	err := env.Send(ctx, dir, r)
	r.CloseWithError(err)
	return failure(ctx, env, err)
}

// failure is the error of a transfer: that the environment is gone, if that is why.
func failure(ctx context.Context, env executor.Environment, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var unsafe *archive.UnsafeError
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &unsafe) {
		return err
	}
	if gone := goneWith(ctx, env, err); gone != nil {
		return gone
	}
	return err
}

// packParcels writes one archive of all parcels, each under its new name.
func packParcels(ctx context.Context, w io.Writer, parcels []Parcel) error {
	out := tar.NewWriter(w)
	for _, p := range parcels {
		r, pw := io.Pipe()
		go func() { pw.CloseWithError(archive.Pack(ctx, pw, p.From)) }()
		base := filepath.Base(p.From)
		err := copyEntries(out, r, func(name string) string { return path.Join(p.To, strings.TrimPrefix(name, base)) })
		r.CloseWithError(err)
		if err != nil {
			return fmt.Errorf("packing %s: %w", p.From, err)
		}
	}
	return out.Close()
}

// copyEntries adds the entries of an archive to another one, under other names.
func copyEntries(out *tar.Writer, r io.Reader, rename func(string) string) error {
	in := tar.NewReader(r)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		slash := strings.HasSuffix(header.Name, "/")
		if header.Name = rename(header.Name); slash {
			header.Name += "/"
		}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
}

// Allowance bounds what a job may bring back from its environment with Fetch.
var Allowance = archive.Limits{Bytes: 64 << 30, Entries: 1_000_000}

// Fetch brings a folder of the environment to a folder on this machine: what is in it replaces what is there of the same name, file
// by file. A folder that the environment does not have is not an error. What comes is bounded by Allowance, and by the time of ctx, which
// should be the job's.
func Fetch(ctx context.Context, env executor.Environment, from, to string) error {
	return FetchWithin(ctx, env, from, to, Allowance)
}

// FetchWithin is Fetch with other bounds than Allowance.
func FetchWithin(ctx context.Context, env executor.Environment, from, to string, bounds archive.Limits) error {
	temp, err := os.MkdirTemp(filepath.Dir(to), ".fetch-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	ctx, end := Within(ctx, env)
	defer end()
	r, w := io.Pipe()
	go func() { w.CloseWithError(env.Fetch(ctx, from, w)) }()
	defer context.AfterFunc(ctx, func() { r.CloseWithError(context.Cause(ctx)) })()
	err = archive.UnpackWithin(ctx, r, temp, bounds)
	r.CloseWithError(err)
	var tooMuch *archive.LimitError
	switch {
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, executor.ErrGone): // an environment may be gone because its socket is not there
		return nil
	case errors.As(err, &tooMuch):
		return &executor.UserError{Message: fmt.Sprintf("fetching %s: %v", path.Base(from), err), Hint: "make the job's artifacts and caches smaller", Err: err}
	case err != nil:
		return fmt.Errorf("fetching %s: %w", path.Base(from), failure(ctx, env, err))
	}
	return merge(filepath.Join(temp, path.Base(from)), to)
}

// merge moves the files of a folder into another one. Links are left out: archives and records are plain files, and a link could lead
// anywhere.
func merge(from, to string) error {
	err := filepath.WalkDir(from, func(full string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, full)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		return os.Rename(full, target)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// SendTree sends the project's files, those that Git ignores left out, to a folder of an environment.
func SendTree(ctx context.Context, env executor.Environment, to, root, scratch string, submodules bool) error {
	temp, err := os.MkdirTemp(scratch, "rung-tree-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	tree := filepath.Join(temp, "tree")
	summary, err := worktree.Copy(ctx, root, tree, worktree.Options{NoSubmodules: !submodules})
	if err != nil {
		return err
	}
	if summary.Repository {
		if err := ownObjects(ctx, tree); err != nil {
			return err
		}
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(packTree(ctx, w, tree)) }()
	err = Unpack(ctx, env, filepath.ToSlash(to), r)
	r.CloseWithError(err)
	return err
}

// SendFile sends a file to a folder of the environment, under its own name.
func SendFile(ctx context.Context, env executor.Environment, dir, file string) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(archive.Pack(ctx, w, file)) }()
	err := env.Send(ctx, dir, r)
	r.CloseWithError(err)
	return err
}

// packTree packs a folder without its own name, and as a container's user can use it.
func packTree(ctx context.Context, w io.Writer, tree string) error {
	out := tar.NewWriter(w)
	r, pw := io.Pipe()
	go func() { pw.CloseWithError(archive.Pack(ctx, pw, tree)) }()
	base := filepath.Base(tree)
	err := copyEntries(out, r, func(name string) string { return path.Join(".", strings.TrimPrefix(name, base)) })
	r.CloseWithError(err)
	if err != nil {
		return err
	}
	return out.Close()
}

// ownObjects gives the copy of a repository the objects that it reads from the original, which the environment does not see.
func ownObjects(ctx context.Context, tree string) error {
	result, err := process.Run(ctx, nil, process.Spec{
		Args: []string{"git", "-c", "gc.auto=0", "repack", "-a", "-d", "-q"}, Dir: tree, Env: os.Environ(), Grace: Closing,
	})
	if err == nil && result.ExitCode != 0 {
		err = fmt.Errorf("git repack ended with exit code %d", result.ExitCode)
	}
	if err != nil {
		return fmt.Errorf("packing the repository for the job: %w", err)
	}
	err = os.Remove(filepath.Join(tree, ".git", "objects", "info", "alternates"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
