// Package dotenv is the code of builtin://dotenv: the report by which a job hands variables to later ones.
package dotenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
	"github.com/rungci/rung/steps/value"
)

// maxRead bounds what is read of a file when the step has no limit of its own.
const maxRead = 16 << 20

type inputs struct {
	Paths        []string `json:"paths"`
	Export       bool     `json:"export"`
	MaxVariables float64  `json:"max_variables"`
	MaxBytes     float64  `json:"max_bytes"`
}

// Run is builtin://dotenv. All files together must keep the limits, since together they are one report. That there is no file is a
// warning; a file that GitLab would refuse is an error.
func Run(ctx context.Context, call *program.Call) error {
	var in inputs
	if err := call.Decode(&in); err != nil {
		return err
	}
	limits := Limits{Bytes: int(max(in.MaxBytes, 0)), Variables: int(max(in.MaxVariables, 0))}
	entries, err := selection.Find(ctx, call, selection.Request{Paths: in.Paths})
	if err != nil {
		return err
	}
	all := &report{limits: limits, values: map[string]value.Value{}}
	for _, e := range entries {
		if e.Info.IsDir() {
			continue
		}
		if err := all.read(call.WorkDir, e.Path); err != nil {
			return fmt.Errorf("the dotenv file %q: %w", e.Path, err)
		}
	}
	if in.Export {
		for _, name := range all.order {
			if err := call.Export(name, all.values[name].Str()); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(call.Stdout, "variables: %d\n", len(all.order))
	return call.Output("variables", value.OfStruct(all.values))
}

// report is what several files hold together.
type report struct {
	limits Limits
	bytes  int
	order  []string
	values map[string]value.Value
}

func (r *report) read(dir, name string) error {
	data, err := readFile(dir, name, r.limits.Bytes)
	if err != nil {
		return err
	}
	list, err := Parse(data, r.limits)
	if err != nil {
		return err
	}
	r.bytes += len(data)
	if r.limits.Bytes > 0 && r.bytes > r.limits.Bytes {
		return &LimitError{What: "bytes, with the files before it,", Got: r.bytes, Limit: r.limits.Bytes}
	}
	for _, v := range list {
		if _, known := r.values[v.Name]; !known {
			r.order = append(r.order, v.Name)
		}
		r.values[v.Name] = value.OfString(v.Value)
	}
	if r.limits.Variables > 0 && len(r.order) > r.limits.Variables {
		return &LimitError{What: "variables, with the files before it,", Got: len(r.order), Limit: r.limits.Variables}
	}
	return nil
}

// readFile reads a file of the work directory, on no way out of it, and not much more than the limit.
func readFile(dir, name string, limit int) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	local := filepath.FromSlash(name)
	if info, err := root.Stat(local); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	} else if most := cap64(limit); info.Size() > most {
		return nil, &LimitError{What: "bytes", Got: int(info.Size()), Limit: int(most)}
	}
	f, err := root.Open(local)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, cap64(limit)+1))
}

func cap64(limit int) int64 {
	if limit <= 0 || limit > maxRead {
		return maxRead
	}
	return int64(limit)
}
