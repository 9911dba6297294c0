package engine

import (
	"os"
	"path/filepath"

	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/steps/value"
)

// stepFiles are the input file, the output file and the export file of one process. They are made when something asks for their path.
type stepFiles struct {
	dir            string
	id             string
	input          string
	output, export string
	scripts        []string
	memory         []*os.File   // what no disk may hold, in the order in which the process is given it
	track          *scriptTrack // nil where the places of a script's lines are unknown
	err            error
}

// newStepFiles is the files of the step with the ID, of which no other process runs at the same time. Names that depend on
// nothing else make the traces of two runs the same.
func newStepFiles(dir, id string) *stepFiles {
	if id == "" {
		id = "run"
	}
	return &stepFiles{dir: dir, id: id}
}

func (f *stepFiles) path(name string) string {
	target, suffix := &f.output, "output.jsonl"
	if name == "export_file" {
		target, suffix = &f.export, "export.jsonl"
	}
	if *target == "" {
		path, err := f.create(suffix, nil)
		if err != nil && f.err == nil {
			f.err = err
		}
		*target = path
	}
	return *target
}

// inputs returns the path of a file that holds the inputs as one JSON object.
func (f *stepFiles) inputs(given value.Value) string {
	if f.input == "" {
		if given.Kind() != value.Struct { // a job has none
			given = value.OfStruct(nil)
		}
		write := f.create
		if given.Sensitive() {
			write = f.inMemory
		}
		path, err := write("input.json", append(given.AppendJSON(nil), '\n'))
		if err != nil && f.err == nil {
			f.err = err
		}
		f.input = path
	}
	return f.input
}

// name is the path of a file of the step.
func (f *stepFiles) name(suffix string) string { return filepath.Join(f.dir, f.id+"-"+suffix) }

// create makes a file that only this user can read. Its name must not exist yet.
func (f *stepFiles) create(suffix string, content []byte) (string, error) {
	path := f.name(suffix)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return path, err
	}
	if _, err := file.Write(content); err != nil {
		file.Close()
		return path, err
	}
	return path, file.Close()
}

// inMemory makes a file that is on no disk, because a secret is in it: its name leads to a descriptor that the process of the step, and no
// other, is given. Where the system has no such files, it is one like the others.
func (f *stepFiles) inMemory(suffix string, content []byte) (string, error) {
	file, err := process.MemoryFile(content)
	if err != nil {
		return f.create(suffix, content)
	}
	path := f.name(suffix)
	if err := os.Symlink(process.FilePath(len(f.memory)), path); err != nil {
		_ = file.Close()
		return path, err
	}
	f.memory = append(f.memory, file)
	return path, nil
}

// scriptFile makes the file of a script.
func (x *execution) scriptFile(suffix, text string) (path string, err error) {
	if x.run.out.mask.String(text) != text {
		path, err = x.files.inMemory(suffix, []byte(text))
	} else if path, err = x.files.create(suffix, []byte(text)); err == nil {
		err = os.Chmod(path, 0o700) // a shell may be {0} alone
	}
	if err == nil {
		x.files.scripts = append(x.files.scripts, path)
	}
	return path, err
}

// remove deletes the files.
func (f *stepFiles) remove() {
	for _, file := range f.memory {
		_ = file.Close()
	}
	for _, path := range append(f.scripts, f.input, f.output, f.export) {
		if path != "" {
			_ = os.Remove(path)
		}
	}
}
