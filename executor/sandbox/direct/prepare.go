package direct

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/imageuser"
	"github.com/rungci/rung/executor/sandbox/rootfs"
	"github.com/rungci/rung/executor/usage"
	"github.com/rungci/rung/steps/event"
)

const (
	// startTime bounds how long the step-runner in a sandbox may take until it listens, the image's entrypoint included.
	startTime = 25 * time.Second
	// saidPipe is what the sandbox says.
	saidPipe = "said"
	// launcher becomes runsc. The pipe for what is said is open for both sides, so that nothing that is said ends the step-runner when this
	// program has ended. The pipes of the first connection are not: the step-runner sees their end.
	launcher = `[ ! -p ` + netPipe + ` ] || exec 5>` + netPipe + `; exec "$@" 1<>` + saidPipe + ` 2>&1 3<` + inPipe + ` 4>` + outPipe
)

// Prepare gets the image's files and starts a sandbox.
func (e *Executor) Prepare(ctx context.Context, job *executor.Job, report executor.Reporter) (executor.Environment, error) {
	if err := errors.Join(job.Validate(), context.Cause(ctx)); err != nil {
		return nil, err
	}
	if err := executor.Check(e, job); err != nil {
		return nil, err
	}
	v := &environment{executor: e, keep: job.Keep, said: &container.Said{}, Life: executor.NewLife()}
	p := &preparation{environment: v, job: job, report: report}
	if err := errors.Join(e.admit(job), keeping{p}.admit()); err != nil {
		return nil, err
	}
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	name := "rung-" + strings.ToLower(job.ID+"-"+rand.Text()[:10])
	v.at = e.at(filepath.Join(e.temp, name))
	if err := e.book.Add(entryOf(v.at.dir)); err != nil {
		return nil, err
	}
	if err := p.prepare(ctx); err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
		v.keep = false
		return nil, errors.Join(err, v.Close(cleanup))
	}
	return v, nil
}

// environment is one sandbox.
type environment struct {
	executor *Executor
	at       *box
	keep     bool
	user     user   // the job's
	home     string // of that user
	environs []string
	layout   executor.Layout
	said     *container.Said
	marks    usage.Marks // that the job has its images

	*executor.Life
	services []*service      // that this process has started
	net      *network        // nil if this process has made none
	first    net.Conn        // the first connection to the step-runner, until it is used; nil if there is none
	runsc    host.Process    // that this program has started for the sandbox; nil if another did
	ended    <-chan struct{} // closed when it has ended

	firsts  sync.Mutex // guards first once the environment is prepared
	closing sync.Mutex
	closed  bool // nothing is left of it, or a successor has it
}

// preparation makes an environment.
type preparation struct {
	*environment
	job    *executor.Job
	report executor.Reporter
	image  *rootfs.Image
	group  string // the path of its control group; "" is none

	targets []string // where it has volumes
	kept    []keptFolder
}

func (v *preparation) prepare(ctx context.Context) error {
	beside := companions{v}
	if err := v.findImage(ctx); err != nil {
		return err
	}
	if err := beside.findServices(ctx); err != nil {
		return err
	}
	if err := v.findUser(); err != nil {
		return err
	}
	v.layout = executor.Layout{
		Name:    filepath.Base(v.at.dir),
		Project: path.Join(buildsFolder, v.job.ProjectName), Temp: path.Join(buildsFolder, v.job.ProjectName+".tmp"), Bin: binFolder,
	}
	if v.job.Image != nil {
		v.layout.Images = []executor.FoundImage{{ID: v.image.ID, Pull: v.image.Pull}}
	}
	for _, s := range v.services {
		v.layout.Images = append(v.layout.Images, executor.FoundImage{ID: s.image.ID, Pull: s.image.Pull})
	}
	v.environs = v.environ()
	if !v.job.ImageEnv { // the entrypoint may have changed them
		v.layout.Env = imageEnv(slices.Concat(v.environs, container.GoVariables(v.image.Config.Env)))
	}
	const own = 0o700
	for _, dir := range []string{v.at.dir, v.at.path("state"), v.at.path("upper")} {
		if err := os.Mkdir(dir, own); err != nil {
			return fmt.Errorf("making a folder for the sandbox: %w", err)
		}
	}
	err := keeping{v}.claim()
	if err != nil {
		return err
	}
	if v.group, err = v.at.bind(v.job.Slot, v.layout.Name, v.job.Resources); err != nil {
		return err
	}
	if v.net, err = v.makeNetwork(ctx); err != nil {
		return err
	}
	if err := errors.Join(v.write(), makePipe(v.at.path(saidPipe))); err != nil {
		return err
	}
	if err := beside.startServices(ctx); err != nil {
		return err
	}
	v.report.Report(event.Preparing{Phase: event.PhaseStarting})
	err = errors.Join(v.start(ctx), v.net.release()) // runsc has an end of its own
	if err != nil {
		return err
	}
	go v.Attend(v.executor.setup.Lease, v.Connect)
	if err := (keeping{v}).own(ctx); err != nil {
		return err
	}
	v.report.Report(event.Preparing{Phase: event.PhaseStarting, Done: true})
	return beside.awaitServices(ctx)
}

// imageEnv is the environment that an image gives its programs, for steps. What the sandbox decides (PATH) or a run has of its own (HOME,
// TMPDIR) is left out.
func imageEnv(env []string) map[string]string {
	out := map[string]string{}
	for _, pair := range env {
		if name, value, ok := strings.Cut(pair, "="); ok && name != "PATH" && name != "HOME" && name != "TMPDIR" {
			out[name] = value
		}
	}
	return out
}

// findUser finds out who the sandbox runs as: the user that the job names, or else the image.
func (v *preparation) findUser() (err error) {
	asked, name := v.job.User, "the root of the sandbox"
	if v.job.Image != nil {
		asked, name = cmp.Or(v.job.User, v.job.Image.User), "image "+v.job.Image.Name
	}
	v.user, v.home, err = userOf(v.image, asked, name)
	return err
}

// userOf finds a user of an image, or with "" the image's own, and the user's home. name says in messages whose image it is.
func userOf(image *rootfs.Image, asked, name string) (as user, home string, err error) {
	read := func(file string) ([]byte, error) { return rootfs.Read(image.Root, file, imageuser.MaxFile) }
	found, err := imageuser.Find(cmp.Or(asked, image.Config.User), read)
	var unknown *imageuser.UnknownError
	if errors.As(err, &unknown) {
		err = &executor.UserError{Message: fmt.Sprintf("%s has %v", name, unknown), Hint: "name one of its own, or a number", Err: err}
	}
	if err == nil {
		err = found.Complete(read)
	}
	return user{found.UID, found.GID, found.Groups}, cmp.Or(found.Home, "/"), err
}

// start starts the sandbox and waits until the step-runner in it listens.
func (v *preparation) start(ctx context.Context) error {
	said, err := openPipe(v.at.path(saidPipe))
	if err != nil {
		return err
	}
	if v.first, err = v.at.makeFirst(); err != nil {
		return errors.Join(err, said.Close())
	}
	ready := v.said.Ready()
	go v.hear(said, v.said)
	args := append([]string{"sh", "-c", launcher, "sh"}, v.at.command(v.at.options(v.job.Resources.Disk, v.group, v.net != nil), "run", "--pass-fd", "3:3", "--pass-fd", "4:4", "--bundle", v.at.dir, boxID)...)
	running, err := v.executor.host.Exec(context.WithoutCancel(ctx), &host.Command{Args: args, Dir: v.at.dir})
	if err != nil {
		return fmt.Errorf("starting runsc: %w", err)
	}
	ended := make(chan struct{})
	v.runsc, v.ended = running, ended
	go func() {
		defer close(ended)
		code, err := running.Wait()
		v.Finish(v.why(code, err))
	}()
	late := time.NewTimer(startTime)
	defer late.Stop()
	select {
	case <-ready:
		v.checkFirst()
		v.said.ReportEntrypoint(v.report, v.imageName())
		return nil
	case <-ended:
		return v.notReady("the sandbox ended before its step-runner listened")
	case <-late.C:
		return v.notReady(fmt.Sprintf("the step-runner in the sandbox did not start within %s", startTime))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (v *preparation) imageName() string {
	if v.job.Image == nil {
		return v.image.Root
	}
	return v.job.Image.Name
}

// notReady is the error of a sandbox whose step-runner does not listen: most often because of the image's entrypoint, which must run the
// command that it is given.
func (v *preparation) notReady(what string) error {
	if said := cmp.Or(v.said.String(), v.at.complaint()); said != "" {
		what += "; it said:\n" + said
	}
	if v.entrypoint() == nil {
		return errors.New(what)
	}
	return &executor.UserError{
		Message: fmt.Sprintf("image %s: %s", v.imageName(), what),
		Hint:    fmt.Sprintf("the image's entrypoint %q must run the command that it is given; entrypoint: [\"\"] does without it", v.entrypoint()),
	}
}

// complaint is the last that runsc has written to its log.
func (b *box) complaint() string {
	file, err := os.Open(b.path("log"))
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > container.MaxSaid {
		_, _ = file.Seek(-container.MaxSaid-1, io.SeekEnd)
	}
	said := &container.Said{}
	_, _ = io.Copy(said, io.LimitReader(file, 2*container.MaxSaid))
	return said.String()
}
