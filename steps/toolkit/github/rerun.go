package github

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/value"
)

// Again returns the toolkit, and the functions, for another run of a job that began at a time: its actions find the artifacts and the caches
// that were there then, and what they leave is gone when the run ends.
func Again(began time.Time) (engine.Toolkit, map[string]engine.Function) {
	functions := map[string]engine.Function{}
	for name, f := range Functions {
		functions[name] = func(scope engine.FunctionScope, args []value.Value) (value.Value, error) {
			return f(scopeAgain{scope, began}, args)
		}
	}
	return func(p engine.ToolkitProcess) (engine.ToolkitSession, error) {
		p.Once = onceAgain(p.Once, began)
		return Begin(p)
	}, functions
}

// scopeAgain is a scope of a run that is done again.
type scopeAgain struct {
	engine.FunctionScope
	began time.Time
}

// Once implements engine.FunctionScope.
func (s scopeAgain) Once(name string, make func() (io.Closer, error)) (io.Closer, error) {
	return onceAgain(s.FunctionScope.Once, s.began)(name, make)
}

type once = func(name string, make func() (io.Closer, error)) (io.Closer, error)

// onceAgain tells the job that it is done again.
func onceAgain(first once, began time.Time) once {
	return func(name string, make func() (io.Closer, error)) (io.Closer, error) {
		return first(name, func() (io.Closer, error) {
			made, err := make()
			if j, ok := made.(*job); ok {
				j.began = began
			}
			return made, err
		})
	}
}

// asOf fills a new folder with what a folder of the services held at a time: files NAME.json, which say when they were created, each with the
// file that it is about.
func asOf(from, to string, began time.Time) error {
	entries, err := os.ReadDir(from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	there := map[string]bool{}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			there[name] = e.Type().IsRegular() && created(filepath.Join(from, e.Name())).Before(began)
		}
	}
	for _, e := range entries {
		name := e.Name()
		if !e.Type().IsRegular() || !there[strings.TrimSuffix(name, filepath.Ext(name))] {
			continue
		}
		if err := share(filepath.Join(from, name), filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// created is when what a file describes was created; now, where it does not say.
func created(path string) time.Time {
	var info struct {
		Created time.Time `json:"created"`
	}
	f, err := os.Open(path)
	if err == nil {
		err = json.NewDecoder(io.LimitReader(f, maxDescription)).Decode(&info)
		f.Close()
	}
	if err != nil || info.Created.IsZero() {
		return time.Now()
	}
	return info.Created
}

// maxDescription bounds what is read of a description, in bytes.
const maxDescription = 64 << 10

// share makes a file appear under another path as well: such files are replaced, and never changed.
func share(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from) // on another file system
	if err != nil {
		return err
	}
	defer in.Close()
	return wholefile.Write(to, 0o600, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}
