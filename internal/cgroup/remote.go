package cgroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	stdio "io" // io is a controller here
	"os"
)

// Operation is how `step-runner host` is asked to Serve.
const Operation = "control-group"

// Request asks a copy of this program on another machine (Serve) for something with the control groups there. It is the one field that is set.
type Request struct {
	Open   bool          `json:"open,omitempty"`
	Make   *MakeRequest  `json:"make,omitempty"`
	Limit  *LimitRequest `json:"limit,omitempty"`
	Usage  *Group        `json:"usage,omitempty"`
	Remove *Group        `json:"remove,omitempty"`
}

// MakeRequest is for Group.Make of Tree.Group.
type MakeRequest struct {
	Tree *Tree  `json:"tree"`
	Slot string `json:"slot,omitempty"`
	Name string `json:"name"`
}

// LimitRequest is for Group.Limit.
type LimitRequest struct {
	Group  *Group `json:"group"`
	Limits Limits `json:"limits"`
	// Project is a folder on the disk that is bounded, where reading and writing are.
	Project string `json:"project,omitempty"`
}

// Answer is what comes back.
type Answer struct {
	Error string `json:"error,omitempty"`
	Tree  *Tree  `json:"tree,omitempty"`  // of Open
	Usage Usage  `json:"usage,omitempty"` // of Usage
}

// maxRequest bounds a request, in bytes.
const maxRequest = 64 << 10

// Serve reads a Request and writes an Answer.
func Serve(ctx context.Context, in stdio.Reader, out stdio.Writer) error {
	var r Request
	if err := json.NewDecoder(stdio.LimitReader(in, maxRequest)).Decode(&r); err != nil {
		return fmt.Errorf("reading what to do with control groups: %w", err)
	}
	answer, err := r.serve(ctx)
	if err != nil {
		answer.Error = err.Error()
	}
	return json.NewEncoder(out).Encode(answer)
}

func (r *Request) serve(ctx context.Context) (answer Answer, err error) {
	switch {
	case r.Open:
		answer.Tree, err = Open()
		return answer, err
	case r.Make != nil && r.Make.Tree != nil:
		r.Make.Tree.sys = machine()
		group, err := r.Make.Tree.Group(r.Make.Slot, r.Make.Name)
		if err != nil {
			return answer, err
		}
		return answer, group.Make()
	case r.Limit != nil && r.Limit.Group != nil:
		return answer, r.Limit.Group.LimitWith(r.Limit.Limits, r.Limit.Project)
	case r.Usage != nil:
		answer.Usage = r.Usage.Usage()
		return answer, nil
	case r.Remove != nil:
		return answer, r.Remove.Remove(ctx)
	}
	return answer, errors.New("nothing is asked for: this program may be of another version")
}

// LimitWith sets the limits of a group that has none. Those of reading and writing are for the disk with the files of a folder.
func (g *Group) LimitWith(l Limits, project string) (err error) {
	if l.IO.Read > 0 || l.IO.Write > 0 {
		if l.IO.Disk, err = Disk(project); err != nil {
			return fmt.Errorf("limiting how fast files are read and written: %w", err)
		}
	}
	return g.Limit(l)
}

// machine is this one.
func machine() *system {
	return &system{uid: os.Geteuid(), mkdir: func(dir string) error { return os.Mkdir(dir, 0o755) }, write: write, delegated: delegated}
}

// treeData are the fields of a tree that another machine needs to name groups in it.
type treeData struct {
	Version     int               `json:"version"`
	Controllers []string          `json:"controllers"`
	Bases       map[string]string `json:"bases"`
	Tops        map[string]string `json:"tops"`
}

// MarshalJSON implements json.Marshaler.
func (t *Tree) MarshalJSON() ([]byte, error) {
	return json.Marshal(treeData{t.Version, t.controllers, t.bases, t.tops})
}

// UnmarshalJSON implements json.Unmarshaler. The tree is that of another machine: it names groups, and does not make them.
func (t *Tree) UnmarshalJSON(text []byte) error {
	var d treeData
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	*t = Tree{Version: d.Version, controllers: d.Controllers, bases: d.Bases, tops: d.Tops}
	return nil
}
