package container

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
)

// The project folder of jobs with Job.KeepProject is a volume of its own, which is mounted in the place of the folder: a job cannot replace
// it by a link, and finds nothing of an earlier one outside of it. It has no label of an environment, so that nothing takes it away with one.
// A container that never runs is the lock on it: of all processes that use the engine, one makes the container of that name. It goes with
// the environment, by its label, also when its owner was killed.
//
// With Job.Root it is a folder there, of the engine's machine, in place of a volume: what its owner moves to other machines is for the engine to have, and not to keep.

const (
	// keptLabel is on volumes with a kept project, and its value is Job.KeepProject.
	keptLabel = "rung.kept"
	// maxKept bounds how many jobs may have kept folders of the same name at once: each has one of its own.
	maxKept = 1000
)

// keptProject is a preparation with what concerns the kept project folder.
type keptProject struct{ *preparation }

// keptVolume is the name of a kept project folder. Projects and users have folders of their own: what one user left another could not
// change.
func keptVolume(job *executor.Job, user string, n int) string {
	sum := sha256.Sum256([]byte(job.ProjectName + "\x00" + user))
	return fmt.Sprintf("rung-kept-%s-%s-%d", job.KeepProject, hex.EncodeToString(sum[:6]), n)
}

// mount lets a container have the kept project. An engine makes a folder that does not exist.
func (v keptProject) mount(host *engine.HostConfig) {
	if v.job.Root != "" {
		host.Binds = append(host.Binds, path.Join(v.job.Root, v.kept)+":"+v.layout.Project)
		return
	}
	host.Mounts = append(host.Mounts, engine.Mount{
		Type: "volume", Source: v.kept, Target: v.layout.Project, VolumeOptions: &engine.VolumeOptions{NoCopy: true, Labels: v.labelled()},
	})
}

func (v keptProject) labelled() map[string]string {
	all := v.labels()
	delete(all, label)
	delete(all, jobLabel)
	all[keptLabel] = v.job.KeepProject
	return all
}

// claim finds a kept project folder of the name that no other job has, or makes one.
func (v keptProject) claim(ctx context.Context) error {
	const doing = "finding the project folder that was kept"
	if v.job.KeepProject == "" {
		return nil
	}
	c := v.executor.client
	for n := range maxKept {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		v.kept = keptVolume(v.job, cmp.Or(v.user(), v.image.user), n)
		taken, err := v.lock(ctx)
		switch {
		case err != nil:
			return v.executor.failed(ctx, doing, err)
		case !taken && v.job.Root != "":
			return nil
		case !taken:
			calling, cancel := making(ctx)
			defer cancel()
			return v.executor.failed(calling, doing, operator(v).keptHere(v.kept, engine.VolumeDriver{}, func() error {
				return c.Volumes.Create(calling, v.kept, v.labelled(), engine.VolumeDriver{})
			}))
		}
	}
	return fmt.Errorf("%d jobs already use the kept project folder %s", maxKept, v.job.KeepProject)
}

// lock makes the container that is the lock on v.kept. It is taken where another job has it.
func (v keptProject) lock(ctx context.Context) (taken bool, err error) {
	calling, cancel := making(ctx)
	defer cancel()
	host := engine.HostConfig{NetworkMode: "none"}
	v.mount(&host)
	_, err = v.executor.client.Containers.Create(calling, v.kept, v.platform().String(), &engine.Container{
		Image: v.image.id, Labels: v.labels(), Entrypoint: []string{""}, Cmd: []string{programFile},
		HostConfig: host,
	})
	if engine.Status(err) == http.StatusConflict {
		return true, nil
	}
	return false, err
}

// own gives all that an earlier job left to the job's user, who could not remove files of root. Root can.
func (v keptProject) own(ctx context.Context) error {
	if v.kept == "" {
		return nil
	}
	return operator(v).give(ctx, v.layout.Project)
}

// give gives a folder in the job's container, and all that is in it, to the job's user.
func (v operator) give(ctx context.Context, folder string) error {
	if v.owner == (owner{}) {
		return nil
	}
	return v.asRoot(ctx, "giving "+folder+" to the job's user", nil, "own", strconv.Itoa(v.owner.uid), strconv.Itoa(v.owner.gid), folder)
}

// asRoot runs `step-runner host` in the job's container as its root, with an input.
func (v *preparation) asRoot(ctx context.Context, doing string, in []byte, args ...string) error {
	id, stream, err := v.exec(ctx, engine.Exec{Cmd: append([]string{programFile, "host"}, args...), User: "0:0", WorkingDir: "/"})
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	said := &Said{}
	_, err = stream.Write(in)
	if err := errors.Join(err, stream.CloseWrite(), engine.Demultiplex(said, said, stream), context.Cause(ctx)); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	code, err := v.exitCode(ctx, id)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, said)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// Kept names the project folders that are kept in the engine, oldest first. It implements executor.Keeper.
func (e *Executor) Kept(ctx context.Context) ([]executor.KeptProject, error) {
	volumes, err := e.client.Volumes.Labelled(ctx, keptLabel)
	if err != nil {
		return nil, e.unreachable(ctx, err)
	}
	slices.SortFunc(volumes, func(a, b engine.Volume) int { return a.CreatedAt.Compare(b.CreatedAt) })
	var all []executor.KeptProject
	for _, volume := range volumes {
		all = append(all, executor.KeptProject{Name: volume.Labels[keptLabel], Place: volume.Name, Made: volume.CreatedAt})
	}
	return all, nil
}

// Forget removes a kept project folder. It implements executor.Keeper.
func (e *Executor) Forget(ctx context.Context, place string) error {
	all, err := e.Kept(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(k executor.KeptProject) bool { return k.Place == place }) {
		return fmt.Errorf("there is no kept project folder %s in %s", place, e.engine)
	}
	switch err := e.client.Volumes.Remove(ctx, place); engine.Status(err) {
	case http.StatusConflict:
		return fmt.Errorf("%w: %s", executor.ErrInUse, place)
	case http.StatusNotFound:
		return nil
	default:
		return e.failed(ctx, "removing the kept project folder "+place, err)
	}
}

// admit refuses what a kept project cannot have.
func (v keptProject) admit() error {
	if v.job.KeepProject != "" && v.job.Resources.Disk > 0 {
		return &executor.Refusal{Level: v.executor.opts.Level, What: "a limit of disk space with a project folder that is kept between jobs"}
	}
	return nil
}
