package container

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/internal/glob"
	"github.com/rungci/rung/steps/event"
)

// Privilege says which containers get all rights on the engine's machine.
type Privilege struct {
	On     bool
	Images []string // patterns of the images that get them, as glob.MatchName has them; none stands for every image
}

func (p Privilege) of(image string) bool {
	return p.On && (len(p.Images) == 0 || slices.ContainsFunc(p.Images, func(pattern string) bool { return glob.MatchName(pattern, image) }))
}

// Bind is a folder of the engine's machine, or a volume of the engine by its name, in a container. $NAME in Target is a variable of the job.
type Bind struct{ Source, Target, Options string } // Options as docker run --volume has them: "ro,z"

// Volumes are what the containers of a job and its services have of the engine's machine and volumes.
type Volumes struct {
	Binds []Bind
	// Kept are folders in the containers, with variables of the job as $NAME, whose content the next job with the same Job.KeepVolumes finds. They are volumes of the engine, or,
	// with Folder, in that folder of its machine. A job without that name has volumes of its own in their places.
	Kept   []string
	Folder string
	From   []string            // containers whose volumes are theirs, too: NAME[:ro]
	Driver engine.VolumeDriver // of Kept, and its name of volumes that Binds name
}

// Network is where the containers of a job and its services are.
type Network struct {
	// Mode is the name of a network of the engine, or "host", "bridge", "none" or "container:NAME"; "" is a network of each job's own. A job that
	// may not reach everything (Job.Network) has its own all the same.
	Mode       string
	IPv6       bool   // networks of jobs have addresses of IPv6, too
	MTU        int    // bytes of their largest packet; 0 is the engine's own
	Hostname   string // of the job's container; "" is made of the job's ID
	MACAddress string // of the job's container
}

// operator is a preparation with what the operator says of it.
type operator struct{ *preparation }

// keptVolumeLabel is on volumes of Volumes.Kept, and its value is Job.KeepVolumes.
const keptVolumeLabel = "rung.volume"

// check refuses what is no place for a volume, where no variables of jobs decide it.
func (o *Options) check() error {
	_, err := o.Volumes.Of(nil)
	if err == nil {
		for target := range o.Job.Tmpfs {
			err = errors.Join(err, CheckTarget(target))
		}
	}
	return err
}

// Of are the volumes of a job whose variables have these values; with nil, what has variables is left as it is.
func (v *Volumes) Of(value func(name string) string) (Volumes, error) {
	expand := func(target string) (string, error) {
		if strings.Contains(target, "$") {
			if value == nil {
				return target, nil
			}
			target = os.Expand(target, value)
		}
		return path.Clean(target), CheckTarget(target)
	}
	out := *v
	out.Binds, out.Kept = nil, nil
	for _, b := range v.Binds {
		target, err := expand(b.Target)
		if err != nil {
			return out, err
		}
		out.Binds = append(out.Binds, Bind{b.Source, target, b.Options})
	}
	for _, target := range v.Kept {
		target, err := expand(target)
		if err != nil {
			return out, err
		}
		if target != buildsFolder && !slices.Contains(out.Kept, target) { // the folder of the projects is Job.KeepProject's
			out.Kept = append(out.Kept, target)
		}
	}
	return out, nil
}

// CheckTarget refuses what is no folder, and what would put something else in the place of the step-runner.
func CheckTarget(target string) error {
	if !path.IsAbs(target) || strings.ContainsAny(target, ":\x00") {
		return &executor.UserError{Message: fmt.Sprintf("the containers of jobs cannot have a volume at %q", target), Hint: "name a folder by its absolute path, without a colon"}
	}
	if target = path.Clean(target); within(ownFolder, target) || within(target, ownFolder) {
		return &executor.UserError{Message: fmt.Sprintf("the containers of jobs cannot have a volume at %s: the step-runner is in %s", target, ownFolder), Hint: "name another folder"}
	}
	return nil
}

// within reports whether a clean path is a folder or below it.
func within(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, strings.TrimSuffix(folder, "/")+"/")
}

// buildsBound reports whether the folder of the projects is one of the engine's machine, which other jobs have as well.
func (o *Options) buildsBound() bool {
	return slices.ContainsFunc(o.Volumes.Binds, func(b Bind) bool { return path.Clean(b.Target) == buildsFolder })
}

// given adds to a configuration what the operator says of the engine's machine.
func (v operator) given(host engine.HostConfig, m engine.Machine) engine.HostConfig {
	o := &v.executor.opts
	host.Machine, host.Runtime = m, o.Runtime
	host.VolumesFrom, host.VolumeDriver = v.volumes.From, v.volumes.Driver.Driver
	host.ExtraHosts = slices.Concat(m.ExtraHosts, v.hosts)
	for _, b := range v.volumes.Binds {
		host.Binds = append(host.Binds, strings.TrimSuffix(b.Source+":"+b.Target+":"+b.Options, ":"))
	}
	if v.job.Image == nil { // the job runs elsewhere, and shares nothing with its services
		return host
	}
	for _, target := range v.volumes.Kept {
		if source := v.keptFolder(target); source != "" {
			host.Binds = append(host.Binds, source+":"+target)
		} else {
			host.Mounts = append(host.Mounts, engine.Mount{Type: "volume", Source: v.keptName(target), Target: target})
		}
	}
	return host
}

// removeBuilds removes the job's folders where they are on the engine's machine, as long as there is a container to do so in. Where there is not,
// they stay: other jobs have others.
func (v *environment) removeBuilds(ctx context.Context) {
	if v.container == "" || !v.executor.opts.buildsBound() {
		return
	}
	_, stream, err := v.executor.client.Containers.Exec(ctx, v.container, engine.Exec{
		Cmd: []string{programFile, "host", "remove", path.Join(buildsFolder, v.name)}, User: "0:0", WorkingDir: "/",
	})
	if err != nil {
		return
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	_ = engine.Demultiplex(io.Discard, io.Discard, stream)
}

// keptName is the name of the volume of a folder that is kept, or of one that goes with the job.
func (v operator) keptName(target string) string {
	sum := sha256.Sum256([]byte(path.Clean(target)))
	if v.job.KeepVolumes == "" {
		return v.name + "-" + hex.EncodeToString(sum[:6])
	}
	return keptPrefix + v.job.KeepVolumes + "-" + hex.EncodeToString(sum[:6])
}

// keptFolder is the folder of the engine's machine for one that is kept; "" is none.
func (v operator) keptFolder(target string) string {
	switch {
	case v.job.KeepVolumes == "":
		return ""
	case v.job.Root != "":
		return path.Join(v.job.Root, v.keptName(target))
	case v.volumes.Folder == "":
		return ""
	}
	return path.Join(v.volumes.Folder, v.job.KeepVolumes, v.keptName(target))
}

// makeKeptVolumes makes the volumes of folders that are kept, where there are none.
func (v operator) makeKeptVolumes(ctx context.Context) error {
	labels := v.labels()
	if v.job.KeepVolumes != "" {
		delete(labels, label)
		delete(labels, jobLabel)
		labels[keptVolumeLabel] = v.job.KeepVolumes
	}
	for _, target := range v.volumes.Kept {
		if folder := v.keptFolder(target); folder != "" {
			if err := v.keptInFolder(folder); err != nil {
				return err
			}
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		calling, cancel := making(ctx)
		create := func() error {
			return v.executor.client.Volumes.Create(calling, v.keptName(target), labels, v.volumes.Driver)
		}
		var err error
		if v.job.KeepVolumes == "" {
			err = create()
		} else {
			err = v.keptHere(v.keptName(target), v.volumes.Driver, create)
		}
		cancel()
		if err != nil {
			return v.executor.failed(calling, "making a volume for "+target, err)
		}
	}
	return nil
}

// privileged reports whether the job's container has all rights.
func (v operator) privileged() bool {
	return v.job.Privileged || v.executor.opts.Privileged.of(v.job.Image.Name)
}

// servicePrivileged reports whether a service has them.
func (v operator) servicePrivileged(s *service) bool {
	return v.job.Privileged || v.executor.opts.PrivilegedServices.of(s.spec.Name)
}

// serviceMachine is what a service has of the engine's machine.
func (v operator) serviceMachine(s *service) engine.Machine {
	o := &v.executor.opts
	m := o.Services
	m.Devices = slices.Clone(m.Devices)
	for _, pattern := range slices.Sorted(maps.Keys(o.ServiceDevices)) {
		if glob.MatchName(pattern, s.spec.Name) {
			m.Devices = append(m.Devices, o.ServiceDevices[pattern]...)
		}
	}
	return m
}

// ownNetwork reports whether the job has a network of its own.
func (v operator) ownNetwork() bool {
	return v.executor.opts.Network.Mode == "" || v.job.Network != executor.NetworkDefault
}

// named reports whether containers have names on the job's network.
func (v operator) named() bool {
	return v.ownNetwork() || !isSpecialNetwork(v.executor.opts.Network.Mode)
}

// isSpecialNetwork reports whether a mode is no network with names of its own.
func isSpecialNetwork(mode string) bool {
	return slices.Contains([]string{"host", "bridge", "default", "none"}, mode) || strings.HasPrefix(mode, "container:")
}

// endpoint is a container's place on the job's network.
func (v operator) endpoint(aliases []string, mac string) engine.NetworkingConfig {
	e := engine.Endpoint{MacAddress: mac}
	if v.named() {
		e.Aliases = aliases
	}
	if len(e.Aliases) == 0 && mac == "" {
		return engine.NetworkingConfig{}
	}
	return engine.NetworkingConfig{EndpointsConfig: map[string]engine.Endpoint{v.network: e}}
}

// links are the names of services with their addresses, for a job on a network that is not its own: that either has no names, or has those of
// other jobs' services, too.
func (v operator) links(ctx context.Context, services []*service) ([]string, error) {
	mode := v.executor.opts.Network.Mode
	if v.ownNetwork() || v.executor.opts.OwnNames || mode == "none" || strings.HasPrefix(mode, "container:") {
		return nil, nil
	}
	var out []string
	for _, s := range services {
		address := loopback
		if mode != "host" {
			found, err := v.executor.client.Containers.Inspect(ctx, s.id)
			if err != nil {
				return nil, v.executor.unreachable(ctx, err)
			}
			ip, known := addressOf(found.NetworkSettings.Networks)
			if !known {
				continue // it has ended
			}
			address = ip.String()
		}
		for _, alias := range s.aliases {
			out = append(out, alias+":"+address)
		}
	}
	return out, nil
}

// hostname is the name of the job's container for itself.
func (v operator) hostname() string {
	if !v.ownNetwork() && strings.HasPrefix(v.executor.opts.Network.Mode, "container:") {
		return "" // it has that of the other container
	}
	return cmp.Or(v.executor.opts.Network.Hostname, hostname(v.job.ID))
}

// labelled are the labels of a container: the operator's, with the job's variables in them, and ours.
func (v operator) labelled() map[string]string {
	all := map[string]string{}
	for name, value := range v.executor.opts.ContainerLabels {
		all[name] = os.Expand(value, func(name string) string { return v.job.Variables[name] })
	}
	maps.Copy(all, v.labels())
	return all
}

// withEntrypoints returns a job whose images have their own entrypoints, where the operator wants that.
func (e *Executor) withEntrypoints(job *executor.Job, report executor.Reporter) *executor.Job {
	if !e.opts.KeepEntrypoint {
		return job
	}
	out := *job
	say := func(image string) {
		report.Say(event.PhaseStarting, image, fmt.Sprintf("warning: the runner does not let jobs replace the entrypoint of image %s, which is used as it is", image))
	}
	if job.Image != nil && len(job.Image.Entrypoint) > 0 {
		image := *job.Image
		image.Entrypoint, out.Image = nil, &image
		say(image.Name)
	}
	out.Services = slices.Clone(job.Services)
	for i := range out.Services {
		if s := &out.Services[i]; len(s.Entrypoint) > 0 {
			s.Entrypoint = nil
			say(s.Name)
		}
	}
	return &out
}
