package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/internal/wholefile"
)

// A journal is written as a whole again once it is minCompact bytes long, and compactFactor times as long as it was after that was done last.
const (
	minCompact    = 1 << 20
	compactFactor = 4
)

// journal is a file of changes: each line is the sum of the rest, and a Change as JSON. All of them together are the state.
type journal struct {
	path string
	file *os.File // nil: it is to be written as a whole
	size int64    // of the file
	base int64    // of the file when it was written as a whole

	name     string
	created  uint64
	machines map[string]scale.InstanceRecord
	jobs     map[string]Job
	volumes  map[string]scale.VolumeRecord
}

// load reads the file. A last line that is not whole was never committed. What is damaged is put aside, and what can be read counts.
func (j *journal) load() (State, error) {
	text, damaged, err := j.read()
	if err != nil {
		return State{}, err
	}
	s := j.state()
	if len(damaged) > 0 {
		aside := j.path + ".damaged"
		if err := wholefile.WriteSynced(aside, 0o600, text); err != nil {
			return State{}, err
		}
		s.Lost = fmt.Sprintf("%d lines of %s are damaged, the first is line %d; the file was kept as %s", len(damaged), j.path, damaged[0], aside)
	}
	return s, j.rewrite()
}

// read applies what is in the file, which need not be there. damaged are the numbers of the lines that cannot be read.
func (j *journal) read() (text []byte, damaged []int, err error) {
	text, err = os.ReadFile(j.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	for i, line := range lines {
		if len(line) == 0 {
			continue
		}
		if c, ok := decode(line); ok {
			j.apply(c)
		} else if i < len(lines)-1 || bytes.HasSuffix(line, []byte("\n")) {
			damaged = append(damaged, i+1)
		}
	}
	return text, damaged, nil
}

// state is what was applied.
func (j *journal) state() State {
	s := State{Fleet: scale.Record{Name: j.name, Created: j.created}, Jobs: maps.Clone(j.jobs)}
	for _, request := range slices.Sorted(maps.Keys(j.machines)) {
		s.Fleet.Instances = append(s.Fleet.Instances, j.machines[request])
	}
	for _, name := range slices.Sorted(maps.Keys(j.volumes)) {
		s.Fleet.Volumes = append(s.Fleet.Volumes, j.volumes[name])
	}
	return s
}

func (j *journal) apply(c Change) {
	if c.Name != "" {
		j.name = c.Name
	}
	j.created = max(j.created, c.Created)
	for _, m := range c.Machines {
		j.machines[m.Request] = m
	}
	for _, request := range c.Gone {
		delete(j.machines, request)
	}
	for _, v := range c.Volumes {
		j.volumes[v.Name] = v
	}
	for _, name := range c.Lost {
		delete(j.volumes, name)
	}
	for _, job := range c.Jobs {
		j.jobs[job.Key] = job
	}
	for _, key := range c.Over {
		delete(j.jobs, key)
	}
}

// commit adds a change. After an error the file is written as a whole with the next one: nobody knows what of this one is in it.
func (j *journal) commit(c Change) error {
	line, err := encode(c)
	if err != nil {
		return err
	}
	if j.file == nil || j.size > minCompact && j.size > compactFactor*j.base {
		if err := j.rewrite(); err != nil {
			return err
		}
	}
	_, err = j.file.Write(line)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return errors.Join(err, j.close())
	}
	j.size += int64(len(line))
	j.apply(c)
	return nil
}

// rewrite writes the state as one change.
func (j *journal) rewrite() error {
	if err := j.close(); err != nil {
		return err
	}
	all := Change{Name: j.name, Created: j.created}
	for _, request := range slices.Sorted(maps.Keys(j.machines)) {
		all.Machines = append(all.Machines, j.machines[request])
	}
	for _, key := range slices.Sorted(maps.Keys(j.jobs)) {
		all.Jobs = append(all.Jobs, j.jobs[key])
	}
	for _, name := range slices.Sorted(maps.Keys(j.volumes)) {
		all.Volumes = append(all.Volumes, j.volumes[name])
	}
	line, err := encode(all)
	if err != nil {
		return err
	}
	if err := wholefile.WriteSynced(j.path, 0o600, line); err != nil {
		return err
	}
	j.size, j.base = int64(len(line)), int64(len(line))
	j.file, err = os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0)
	return err
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}

func encode(c Change) ([]byte, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(text), text), nil
}

func decode(line []byte) (c Change, ok bool) {
	sum, text, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
	if !ok || !strings.HasSuffix(string(line), "\n") || sum != fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(text))) {
		return c, false
	}
	return c, json.Unmarshal([]byte(text), &c) == nil
}
