package engine

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source"
)

// maxImageFile bounds what a program says of the image that it ran, in bytes.
const maxImageFile = 64 << 10

// stepImage is the image of a container that a process runs for its step. A nil one is that of all other processes.
type stepImage struct {
	name   string // as the step names it; "" is one that is built
	locked string // the name under which it is pulled
	file   string // where the program says what it was
}

// image finds out which image a process runs, and holds it against the lock file.
func (x *execution) image(ctx context.Context, argv []string) (*stepImage, *event.Error) {
	name, what, is := source.ContainerCommand(argv, x.inputs)
	if !is || x.run.opts.Program == "" {
		return nil, nil
	}
	out := &stepImage{name: name, locked: name}
	if locker, ok := x.run.opts.Source.(source.ImageLocker); ok {
		var err error
		if out.locked, err = locker.LockedImage(what, name); err != nil {
			at := x.inv.commandSpan()
			if step := x.inv.step; step != nil && step.Ref != nil {
				at = step.Ref.Span
			}
			return nil, x.run.at(loadError(ctx, what, err), at)
		}
	}
	file, err := x.files.create("image.json", nil)
	if err != nil {
		return nil, systemError("creating the step's files: %v", err)
	}
	x.files.scripts = append(x.files.scripts, file)
	out.file = file
	return out, nil
}

// env adds what the program is told. What a step sets in its place is nothing.
func (i *stepImage) env(vars []string) []string {
	if i == nil {
		return vars
	}
	out := make([]string, 0, len(vars)+2)
	for _, pair := range vars {
		if name, _, _ := strings.Cut(pair, "="); name != containers.LockedImageVariable && name != containers.ImageFileVariable {
			out = append(out, pair)
		}
	}
	return append(out, containers.LockedImageVariable+"="+i.locked, containers.ImageFileVariable+"="+i.file)
}

// ran is what the image was; nil where the program did not come to run it.
func (i *stepImage) ran() *containers.StepImage {
	if i == nil {
		return nil
	}
	f, err := os.Open(i.file)
	if err != nil {
		return nil
	}
	defer f.Close()
	out := &containers.StepImage{}
	if json.NewDecoder(io.LimitReader(f, maxImageFile)).Decode(out) != nil {
		return nil
	}
	if i.name != "" {
		out.Name = i.name
	}
	return out
}
