package container

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/executor/usage"
	"github.com/rungci/rung/steps/event"
)

// Where things are in a job's container.
const (
	buildsFolder  = "/builds"
	ownFolder     = "/opt/rung"
	binFolder     = ownFolder + "/bin"
	programFile   = binFolder + "/step-runner"
	socketFolder  = ownFolder + "/run"
	socketFile    = socketFolder + "/step-runner.sock"
	defaultPath   = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	temporary     = "/tmp"
	stickyForAll  = 0o1777
	pullsTogether = 3 // how many images of a job are pulled at a time
)

// Prepare pulls the images, starts the services and the job's container, and waits for them.
func (e *Executor) Prepare(ctx context.Context, job *executor.Job, report executor.Reporter) (executor.Environment, error) {
	if err := errors.Join(job.Validate(), context.Cause(ctx)); err != nil {
		return nil, err
	}
	if job.Image == nil {
		return nil, &executor.UserError{Message: "the job names no image, and it is to run in a container", Hint: "write image: NAME, or run it without isolation"}
	}
	if err := executor.Check(e, job); err != nil {
		return nil, err
	}
	env, err := e.open(ctx, job, report, (*preparation).prepare)
	if err != nil {
		return nil, err // not a nil environment in an interface
	}
	return env, nil
}

// open makes an environment and lets fill fill it. When that fails nothing is left.
func (e *Executor) open(ctx context.Context, job *executor.Job, report executor.Reporter, fill func(*preparation, context.Context) error) (*environment, error) {
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	volumes, err := e.opts.Volumes.Of(func(name string) string { return job.Variables[name] })
	if err != nil {
		return nil, err
	}
	env := &environment{
		executor: e, job: job, Life: executor.NewLife(),
		name: "rung-" + strings.ToLower(job.ID+"-"+rand.Text()[:10]),
	}
	if err := e.book.Add(e.entry(env.name)); err != nil {
		return nil, err
	}
	env.job = e.withEntrypoints(job, report)
	filling := &preparation{environment: env, report: report, volumes: volumes}
	err = filling.admit(ctx)
	if err == nil {
		err = fill(filling, ctx)
	}
	if err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
		env.discard = true
		if left := env.Close(cleanup); left != nil {
			err = errors.Join(err, &executor.LeftError{Err: left, Remove: env.Close})
		}
		return nil, err
	}
	return env, nil
}

// environment is the containers, the network and the volume of one job.
type environment struct {
	executor *Executor
	job      *executor.Job
	name     string // of all of it
	discard  bool   // whatever the job wants kept

	found     []executor.FoundImage // the job's image and those of its services
	container string                // the id of the job's container
	owner     owner
	layout    executor.Layout
	said      *Said      // what the job's container has said last
	first     *firstConn // the first connection to its step-runner; nil where another process has made it
	marks     usage.Marks

	*executor.Life

	closing sync.Mutex
	closed  bool // nothing is left of it, or a successor has it
}

// preparation makes an environment.
type preparation struct {
	*environment
	report  executor.Reporter
	image   *image   // of the job; nil where only services are started
	network string   // the id of the network
	proxy   proxied  // by which the job reaches others
	kept    string   // the volume of a project that is kept between jobs; "" is none
	cpus    int      // that the engine has; 0 is not known, because nobody asked
	hosts   []string // names and addresses of services, with Options.OwnNames
	volumes Volumes
	// ownStreams says that the input and output of the job's container are the first connection to its step-runner.
	ownStreams bool
}

func (v *environment) Layout() executor.Layout { return v.layout }

func (v *preparation) labels() map[string]string {
	all := map[string]string{label: v.name, jobLabel: v.job.ID}
	maps.Copy(all, v.executor.setup.Labels)
	return all
}

// prepare makes it all. Calls that make something are not given up when ctx ends: nobody would know whether they have.
func (v *preparation) prepare(ctx context.Context) error {
	var services []*service
	err := v.together(ctx, func(ctx context.Context) (err error) {
		services, err = v.pullAll(ctx)
		return err
	}, v.makeVolume, operator{v}.makeKeptVolumes, v.makeNetwork)
	if err != nil {
		return err
	}
	if err := (gateway{v}).start(ctx); err != nil {
		return err
	}
	v.lay()
	if err := (keptProject{v}).claim(ctx); err != nil {
		return err
	}
	beside := &companions{v}
	if err := beside.startServices(ctx, services); err != nil {
		return err
	}
	links, err := operator{v}.links(ctx, services)
	if err != nil {
		return err
	}
	if err := v.startJob(ctx, links); err != nil {
		return err
	}
	go v.watch()
	go v.Attend(v.executor.setup.Lease, v.connect)
	v.report.Report(event.Preparing{Phase: event.PhaseStarting, Done: true})
	return beside.awaitServices(ctx, services)
}

// together does things at once, and returns the first error in their order.
func (v *preparation) together(ctx context.Context, all ...func(context.Context) error) error {
	problems := make([]error, len(all))
	var wg sync.WaitGroup
	for i, do := range all {
		wg.Go(func() { problems[i] = do(ctx) })
	}
	wg.Wait()
	for _, err := range problems {
		if err != nil {
			return err // one is enough to read
		}
	}
	return nil
}

// pullAll gets the images of the job and its services.
func (v *preparation) pullAll(ctx context.Context) ([]*service, error) {
	p := &puller{Executor: v.executor, job: v.job, report: v.report, marks: &v.marks}
	services := make([]*service, len(v.job.Services))
	problems := make([]error, len(services)+1)
	var wg sync.WaitGroup
	slots := make(chan struct{}, pullsTogether)
	together := func(get func()) {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			get()
		})
	}
	if v.job.Image != nil {
		together(func() { v.image, problems[0] = p.get(ctx, v.job.Image) })
	}
	for i := range v.job.Services {
		spec := &v.job.Services[i]
		services[i] = &service{spec: spec, number: i + 1}
		together(func() { services[i].image, problems[i+1] = p.get(ctx, &spec.Image) })
	}
	wg.Wait()
	for _, err := range problems {
		if err != nil {
			return nil, err
		}
	}
	if v.image != nil {
		v.found = append(v.found, executor.FoundImage{ID: v.image.id, Pull: v.image.pull})
	}
	for _, s := range services {
		v.found = append(v.found, executor.FoundImage{ID: s.image.id, Pull: s.image.pull})
	}
	return services, nil
}

// making is a context for calls that make something.
func making(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), createTime)
}

func (v *preparation) makeVolume(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	calling, cancel := making(ctx)
	defer cancel()
	err := v.executor.client.Volumes.Create(calling, v.name, v.labels(), engine.VolumeDriver{})
	return v.executor.failed(calling, "making a volume for the job's files", err)
}

// failed explains the error of a call, which may be nil.
func (e *Executor) failed(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, e.unreachable(ctx, err))
}

// user is who the job's container runs as; empty is the image's own.
func (v *preparation) user() string { return cmp.Or(v.job.User, v.job.Image.User) }

// folder is one that a job needs in its container.
type folder struct {
	path  string
	mode  int64
	owned bool // by the job's user; else by root
}

// folders are those of the job. An image may have nothing but a program.
func (v *preparation) folders() []folder {
	return []folder{{v.layout.Project, 0o755, true}, {v.layout.Temp, 0o700, true}, {socketFolder, 0o700, true}, {temporary, stickyForAll, false}}
}

// root reports whether the job's container surely runs as root, so that the step-runner in it can make folders.
func (v *preparation) root() bool {
	user := cmp.Or(v.user(), v.image.user)
	return user == "" || user == "0:0"
}

// serve is the command of the job's container. The step-runner makes the folders first.
func (v *preparation) serve(folders []folder) []string {
	args := []string{programFile, "serve", "--socket", socketFile, "--announce-on-both"}
	if v.ownStreams {
		args = append([]string{programFile, "init"}, append(args, "--connected=0,1")...)
	}
	setup := &v.executor.setup
	args = append(args, setup.Lease.Args()...)
	if v.job.ImageEnv {
		args = append(args, "--pass-environment")
		for _, pair := range GoVariables(v.image.env) {
			args = append(args, "--image-variable="+pair)
		}
	}
	for _, f := range folders {
		flag := "folder"
		if v.kept != "" && f.path == v.layout.Project { // an earlier job may have changed it
			flag = "own-folder"
		}
		args = append(args, fmt.Sprintf("--%s=%04o:%s", flag, f.mode, f.path))
	}
	return append(append(args, setup.Limits.Args()...), setup.Serve...)
}

// hostConfig is the configuration of the job's containers: of its own, and of services.
func (v *preparation) hostConfig(privileged bool, m engine.Machine) engine.HostConfig {
	host := gateway{v}.confine(operator{v}.given(engine.HostConfig{Privileged: privileged, NetworkMode: v.network}, m))
	if v.job.Image != nil && v.job.Resources.Disk == 0 && !v.executor.opts.buildsBound() { // a volume counts against no limit; without one, /builds is the container's own
		host.Mounts = append(host.Mounts, engine.Mount{Type: "volume", Source: v.name, Target: buildsFolder})
	}
	if v.kept != "" {
		keptProject{v}.mount(&host)
	}
	return host
}

// lay decides where things are.
func (v *preparation) lay() {
	builds := buildsFolder
	if v.executor.opts.buildsBound() { // other jobs have it, too
		builds = path.Join(buildsFolder, v.name)
	}
	v.layout = executor.Layout{
		Name: v.name, Project: path.Join(builds, v.job.ProjectName), Temp: path.Join(builds, v.job.ProjectName+".tmp"), Bin: binFolder,
		Images: v.found,
	}
	if !v.job.ImageEnv { // the entrypoint may have changed them
		v.layout.Env = imageEnv(v.image.env)
	}
	if way := v.proxy.env(v.job.Services); way != nil {
		maps.Copy(way, v.layout.Env)
		v.layout.Env = way
	}
}

// startJob makes the job's container, puts the step-runner and folders into it, starts it and waits for the step-runner.
func (v *preparation) startJob(ctx context.Context, links []string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	calling, cancel := making(ctx)
	defer cancel()
	host := v.bounded(v.hostConfig(operator{v}.privileged(), v.executor.opts.Job), v.job.Resources)
	host.ExtraHosts = slices.Concat(host.ExtraHosts, links)
	digest := "" // of the step-runner, where the engine has it
	var err error
	shares := v.executor.sharesProgram(&host)
	if v.ownStreams = shares && v.image.entrypointOf(v.job.Image) == nil && host.LogConfig == nil; v.ownStreams {
		host.LogConfig = &engine.LogConfig{Type: "none"} // what goes through them is for nobody's disk
	}
	host.Init = new(!v.ownStreams)
	if shares {
		if digest, err = v.executor.program.digest(); err != nil {
			return err
		}
		host.Mounts = append(host.Mounts, programMount(digest, false))
	}
	var folders []folder // that the step-runner makes, which saves calls of the engine
	if digest != "" && v.root() {
		folders = v.folders()
	}
	v.container, err = v.executor.client.Containers.Create(calling, v.name, v.platform().String(), &engine.Container{
		Image: v.image.id, User: v.user(), Labels: operator{v}.labelled(), Hostname: operator{v}.hostname(), MacAddress: v.executor.opts.Network.MACAddress,
		Entrypoint: v.job.Image.Entrypoint, Cmd: EntrypointArgs(v.image.entrypointOf(v.job.Image), v.serve(folders)),
		Env: startEnv(v.image), WorkingDir: buildsFolder, OpenStdin: v.ownStreams, StdinOnce: v.ownStreams,
		Healthcheck: &engine.Healthcheck{Test: []string{"NONE"}}, HostConfig: host,
		NetworkingConfig: operator{v}.endpoint(nil, v.executor.opts.Network.MACAddress),
	})
	if err != nil {
		return v.notMade(calling, "the job's container", v.job.Image.Name, v.job.Resources, err)
	}
	if v.owner, err = v.findOwner(ctx); err != nil {
		return err
	}
	if digest != "" {
		if err := v.ensureProgram(ctx, v.container, digest); err != nil {
			return err
		}
	}
	if folders == nil {
		if err := v.furnish(ctx, digest == ""); err != nil {
			return err
		}
	}
	v.report.Report(event.Preparing{Phase: event.PhaseStarting})
	if err := v.run(ctx); err != nil {
		return err
	}
	if err := v.nameServers(ctx); err != nil {
		return err
	}
	for _, target := range v.volumes.Kept {
		if err := (operator{v}).give(ctx, target); err != nil { // root may have less rights than usual
			v.report.Say(event.PhaseStarting, v.job.Image.Name, fmt.Sprintf("warning: %v", err))
		}
	}
	return keptProject{v}.own(ctx)
}

// startEnv is what a job's container has instead of its image's variables.
func startEnv(i *image) []string {
	out := []string{"PATH=" + pathOf(i.env) + ":" + binFolder}
	for _, pair := range GoVariables(i.env) {
		name, _, _ := strings.Cut(pair, "=")
		out = append(out, name+"=") // empty is the default
	}
	return out
}

// hostname is a name for the job's container: an ID may hold what a host's name may not.
func hostname(id string) string {
	return strings.Trim(strings.ToLower(strings.ReplaceAll(id, "_", "-")), "-")
}

// pathOf is the PATH of an image.
func pathOf(env []string) string {
	for _, pair := range env {
		if path, ok := strings.CutPrefix(pair, "PATH="); ok && path != "" {
			return path
		}
	}
	return defaultPath
}

// imageEnv is the environment that an image gives its programs, for steps, which get nothing by themselves. What the engine
// decides (PATH) or a run has of its own (HOME, TMPDIR) is left out.
func imageEnv(env []string) map[string]string {
	out := map[string]string{}
	for _, pair := range env {
		name, value, ok := strings.Cut(pair, "=")
		hidden := value == "" && slices.Contains(goVariables, name) // by startEnv
		if ok && !hidden && name != "PATH" && name != "HOME" && name != "TMPDIR" {
			out[name] = value
		}
	}
	return out
}

// furnish puts the job's folders into the container, which does not run yet, and with program the step-runner.
func (v *preparation) furnish(ctx context.Context, program bool) error {
	missing := v.executor.client.Containers.StatFile(ctx, v.container, temporary)
	err := v.put(ctx, v.container, "/", func(w *tar.Writer) error {
		for _, f := range v.folders() {
			if f.path == temporary && engine.Status(missing) != http.StatusNotFound {
				continue
			}
			h := &tar.Header{Typeflag: tar.TypeDir, Name: f.path[1:] + "/", Mode: f.mode}
			if f.owned {
				h.Uid, h.Gid = v.owner.uid, v.owner.gid
			}
			if err := w.WriteHeader(h); err != nil {
				return err
			}
		}
		if !program {
			return nil
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: binFolder[1:] + "/", Mode: 0o755}); err != nil {
			return err
		}
		return v.executor.program.writeTo(w, programFile[1:])
	})
	return occupied(v.executor.failed(ctx, "making folders in the job's container", err), v.job.Image.Name, ownFolder)
}

// put writes an archive into a folder of a container.
func (v *preparation) put(ctx context.Context, container, dir string, write func(*tar.Writer) error) error {
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		out := tar.NewWriter(w)
		err := write(out)
		if err == nil {
			err = out.Close()
		}
		w.CloseWithError(err)
		written <- err
	}()
	err := v.executor.client.Containers.WriteFiles(ctx, container, dir, r)
	r.CloseWithError(errNotTaken)
	if writeErr := <-written; writeErr != nil && !errors.Is(writeErr, errNotTaken) {
		return writeErr // why the engine was not content
	}
	return err
}

var errNotTaken = errors.New("the engine took no more")
