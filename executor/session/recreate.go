package session

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/event"
)

// Bring brings to an environment what was described of an earlier one. kept is the name of the folder that projects whose jobs ran here have, and project the one that the user is in, which needs none. It returns what is not on this machine any more, which is left out.
func Bring(ctx context.Context, env executor.Environment, files []event.File, kept, project string) (missing []string, err error) {
	for _, f := range files {
		if f.From == "" {
			if path.Dir(path.Clean(f.To)) != path.Clean(filepath.ToSlash(env.Layout().Temp)) {
				return nil, notForFiles(f.To)
			}
			if err := SendText(ctx, env, f.To, f.Text); err != nil {
				return nil, fmt.Errorf("sending %s: %w", path.Base(f.To), err)
			}
			continue
		}
		if _, err := os.Stat(f.From); err != nil {
			missing = append(missing, f.From)
			continue
		}
		if err := mayBring(f, kept, project); err != nil {
			return nil, err
		}
		if f.Tree {
			err = sendTreeAs(ctx, env, f.From, f.To)
		} else {
			err = sendAs(ctx, env, f.From, f.To)
		}
		if err != nil {
			return nil, fmt.Errorf("sending %s: %w", f.From, err)
		}
	}
	return missing, nil
}

// mayBring refuses what no job was ever brought. A trace may name any file on this machine, and its steps would see it; jobs are brought
// projects, in which this program keeps a folder, and what is in such a folder.
func mayBring(f event.File, kept, project string) error {
	if f.Tree && filepath.Clean(f.From) == project {
		return nil
	}
	if f.Tree {
		if _, err := os.Stat(filepath.Join(f.From, kept)); err != nil {
			return fmt.Errorf("%s is not a project whose jobs ran here: it has no folder %s", f.From, kept)
		}
		return nil
	}
	if !slices.Contains(strings.Split(filepath.ToSlash(filepath.Clean(f.From)), "/"), kept) {
		return fmt.Errorf("%s is in no folder %s, and jobs are brought nothing else", f.From, kept)
	}
	return nil
}

// SendText makes a file in an environment that only the job's user can read.
func SendText(ctx context.Context, env executor.Environment, to, text string) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Base(to), Mode: 0o600, Size: int64(len(text))}); err != nil {
		return err
	}
	if _, err := w.Write([]byte(text)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return Unpack(ctx, env, path.Dir(to), &archive)
}

// sendAs sends a file or folder to a path of the environment. Where it goes is the trace's word, which may name any place: only those
// beside the project are accepted.
func sendAs(ctx context.Context, env executor.Environment, from, to string) error {
	name, inside := inStore(env, to)
	if !inside {
		return notForFiles(to)
	}
	return Send(ctx, env, []Parcel{{From: from, To: name}})
}

// sendTreeAs sends a work tree to the project's folder, or to a place that sendAs accepts.
func sendTreeAs(ctx context.Context, env executor.Environment, from, to string) error {
	project := filepath.ToSlash(env.Layout().Project)
	if _, inside := inStore(env, to); !inside && path.Clean(to) != path.Clean(project) {
		return notForFiles(to)
	}
	return SendTree(ctx, env, to, from, "", true)
}

// inStore returns what a path is below the store of an environment.
func inStore(env executor.Environment, to string) (name string, inside bool) {
	return strings.CutPrefix(path.Clean(to), path.Join(filepath.ToSlash(env.Layout().Temp), StoreFolder)+"/")
}

func notForFiles(to string) error { return fmt.Errorf("%s is not a place for files of the job", to) }
