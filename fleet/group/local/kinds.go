package local

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/fleet/group/local/machine"
	"github.com/rungci/rung/fleet/group/options"
)

// What machines are.
const (
	// Processes are of this host, in namespaces. They see its system, and nothing else of it.
	Processes = "processes"
	// Containers are those of an engine, with the files of an image.
	Containers = "containers"
	// Sandboxes are those of gVisor, by an engine that knows it, with the files of an image.
	Sandboxes = "sandboxes"
)

const (
	// sandboxRuntime is what engines call gVisor's OCI runtime.
	sandboxRuntime = "runsc"
	// engineTime bounds how long an engine may take to answer.
	engineTime = 5 * time.Second
)

// check says which options do not go together.
func (o *Options) check() error {
	var wrong options.Errors
	refuse := func(set bool, name, why string) {
		if set {
			wrong = append(wrong, options.At(why, name)...)
		}
	}
	if o.boxed() {
		refuse(o.Image == "", "machines", "machines that are "+o.Machines+" need the option image")
		refuse(len(o.Paths) > 0, "paths", "machines that are "+o.Machines+" see no files of this host: remove it")
		refuse(o.Machines == Sandboxes && o.Network == NetworkHost, "network", "sandboxes have no network of this host: use own or none")
	} else {
		const why = "machines that are processes have none: remove it, or set machines to containers or sandboxes"
		refuse(o.Image != "", "image", why)
		refuse(o.Engine != "", "engine", why)
		refuse(o.Program != "", "program", why)
	}
	if len(wrong) == 0 {
		return nil
	}
	return wrong
}

// boxed reports whether machines are something else than processes.
func (o *Options) boxed() bool { return cmp.Or(o.Machines, Processes) != Processes }

// findBox finds what containers and sandboxes are made by, and removes those that are left of machines nobody knows.
func (c *cloud) findBox(ctx context.Context) error {
	program, err := c.program()
	if err != nil {
		return err
	}
	place, client, err := c.findEngine(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	c.box = &machine.Box{Engine: place.Host, Certificates: place.Certificates, Image: c.options.Image, Program: program}
	if network := cmp.Or(c.options.Network, NetworkOwn); network != NetworkOwn {
		c.box.Network = network // engines call them the same
	}
	if c.options.Machines == Sandboxes {
		info, err := client.Info(ctx)
		if err != nil {
			return fmt.Errorf("the container engine at %s: %w", engine.WithoutUser(place.Host), err)
		}
		if _, known := info.Runtimes[sandboxRuntime]; !known {
			return options.At(fmt.Sprintf("the container engine at %s (%s) does not know the runtime %s; add it to the runtimes in its configuration", engine.WithoutUser(place.Host), place.From, sandboxRuntime), "machines")
		}
		c.box.Runtime = sandboxRuntime
	}
	err = machine.Sweep(ctx, c.box, c.labelled(), func(name string) bool {
		_, err := os.Lstat(c.path(name))
		return err == nil
	})
	if err != nil {
		c.log.Warn("containers that are left of machines were not removed", "error", err)
	}
	return nil
}

// labelled is what containers of this owner's machines in this folder are labelled with.
func (c *cloud) labelled() string { return c.settings.Owner + " " + c.folder }

// boxFor is the box of a machine.
func (c *cloud) boxFor(r *record) *machine.Box {
	if c.box == nil {
		return nil
	}
	box, shape := *c.box, c.options.Shapes[r.Order.Shape]
	box.Labels, box.CPUs, box.Memory = machine.Labels(c.labelled(), r.ID), shape.CPUs, int64(shape.Memory)
	return &box
}

// findEngine finds the engine of the options, else the one that the environment names, else the first that answers.
func (c *cloud) findEngine(ctx context.Context) (*engine.Place, *engine.Client, error) {
	place, places := &engine.Place{Host: c.options.Engine, From: "the option engine"}, []engine.Place(nil)
	if filepath.IsAbs(place.Host) {
		place.Host = "unix://" + place.Host
	}
	if place.Host == "" {
		var err error
		if place, err = engine.Named(os.Environ()); err != nil {
			return nil, nil, err
		}
	}
	if place != nil {
		places = append(places, *place)
	} else {
		places = slices.DeleteFunc(engine.Usual(os.Environ()), func(p engine.Place) bool { return !p.Exists() })
	}
	tried := []error{errors.New("machines that are " + c.options.Machines + " need a container engine: start Docker or Podman, or name its socket in the option engine")}
	for _, place := range places {
		client, err := answering(ctx, &place)
		if err == nil {
			return &place, client, nil
		}
		tried = append(tried, fmt.Errorf("%s (%s): %w", engine.WithoutUser(place.Host), place.From, err))
	}
	err := errors.Join(tried...)
	if c.options.Engine != "" {
		return nil, nil, options.At(strings.ReplaceAll(err.Error(), "\n", "; "), "engine")
	}
	return nil, nil, err
}

// answering is a client of an engine that answers.
func answering(ctx context.Context, place *engine.Place) (*engine.Client, error) {
	client, err := engine.New(place.Host, place.Certificates)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, engineTime, fmt.Errorf("it did not answer within %s", engineTime))
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

// program is the file that is the SSH server in containers and sandboxes, whose images may lack every library.
func (c *cloud) program() (string, error) {
	path := c.options.Program
	wrong := func(why string) error { return options.At(why, "program") }
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		path = self
		wrong = func(why string) error { return options.At(why+": name a rung that needs none", "program") }
	}
	file, err := elf.Open(path)
	if err != nil {
		return "", wrong(path + " is not a program of Linux: " + err.Error())
	}
	defer file.Close()
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return "", wrong(path + " needs libraries, which images may not have")
	}
	return path, nil
}
