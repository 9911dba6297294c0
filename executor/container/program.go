package container

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/executor/container/engine"
)

// The step-runner of jobs' containers is in a volume of the engine, one for each build of it, which jobs mount read-only: copying its 26 MB
// into every container takes longer than all else that is done here. The volume is filled once, through a container that never runs, and
// read back; the mark in it says that its content has the digest that it is named for. A job that could write through a read-only mount
// (a privileged one), and an engine that might fill the volume from an image (Podman), get a copy instead.

const (
	// programLabel is on volumes with a step-runner, and its value is the step-runner's SHA-256.
	programLabel = "rung.program"
	// programMark is in such a volume when it is complete.
	programMark = binFolder + "/.complete"
	// keptPrograms is how many such volumes an engine keeps. Older ones that no container uses are removed when one is added.
	keptPrograms = 3
	// fillPause is the time between two looks at a volume that another process fills.
	fillPause = 100 * time.Millisecond
)

// program is the step-runner for an engine's containers.
type program struct {
	path   string
	shared bool                   // the engine can keep it in a volume; Docker alone can
	digest func() (string, error) // SHA-256, in hexadecimal digits
}

// docker reports whether the engine is Docker.
func (p *program) docker() bool { return p.shared }

// hashFile returns the SHA-256 of a file, in hexadecimal digits.
func hashFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading the step-runner for the container: %w", err)
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("reading the step-runner for the container: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// programVolume is the name of the volume of a step-runner, and of the container through which it is filled.
func programVolume(digest string) string { return "rung-program-" + digest[:32] }

// programMount is how jobs' containers, and with write the one that fills it, have the volume. Nothing of an image gets into it.
func programMount(digest string, write bool) engine.Mount {
	return engine.Mount{
		Type: "volume", Source: programVolume(digest), Target: binFolder, ReadOnly: !write,
		VolumeOptions: &engine.VolumeOptions{NoCopy: true, Labels: map[string]string{programLabel: digest}},
	}
}

// writeTo adds the step-runner to an archive.
func (p *program) writeTo(w *tar.Writer, name string) error {
	file, err := os.Open(p.path)
	if err != nil {
		return fmt.Errorf("reading the step-runner for the container: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: info.Size(), ModTime: info.ModTime()}); err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return err
}

// errFilling says that another process fills the volume.
var errFilling = errors.New("another process is copying the step-runner to the engine")

// ensureProgram makes sure that the volume in a container, which does not run yet, is complete.
func (v *preparation) ensureProgram(ctx context.Context, container, digest string) error {
	const doing = "looking for the step-runner in the engine's volume"
	c := v.executor.client
	stale := time.NewTimer(createTime) // nobody who lives fills it longer
	defer stale.Stop()
	for {
		err := c.Containers.StatFile(ctx, container, programMark)
		if engine.Status(err) == http.StatusInternalServerError { // that has no text, and this says the same with one
			var archive io.ReadCloser
			if archive, err = c.Containers.ReadFiles(ctx, container, programMark); err == nil {
				return archive.Close()
			}
		}
		if engine.Status(err) != http.StatusNotFound {
			return occupied(v.executor.failed(ctx, doing, err), v.job.Image.Name, ownFolder)
		}
		if err := v.fillProgram(ctx, digest); !errors.Is(err, errFilling) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stale.C:
			if err := c.Containers.Remove(ctx, programVolume(digest)); err != nil && engine.Status(err) != http.StatusNotFound {
				return v.executor.failed(ctx, "removing a container that was left behind", err)
			}
		case <-time.After(fillPause):
		}
	}
}

// fillProgram copies the step-runner to its volume, verifies what the engine has, and marks the volume as complete. The name of the
// container makes it a lock: of all processes that use the engine, one fills.
func (v *preparation) fillProgram(ctx context.Context, digest string) (err error) {
	ctx, cancel := making(ctx)
	defer cancel()
	c := v.executor.client
	filler, err := c.Containers.Create(ctx, programVolume(digest), v.platform().String(), &engine.Container{
		Image: v.image.id, Labels: v.labels(), Entrypoint: []string{""}, Cmd: []string{programFile},
		HostConfig: engine.HostConfig{NetworkMode: "none", Mounts: []engine.Mount{programMount(digest, true)}},
	})
	if engine.Status(err) == http.StatusConflict {
		return errFilling
	}
	if err != nil {
		return v.executor.failed(ctx, "making a container to copy the step-runner through", err)
	}
	defer func() {
		err = errors.Join(err, v.executor.failed(ctx, "removing the container that the step-runner was copied through", c.Containers.Remove(ctx, filler)))
	}()
	if c.Containers.StatFile(ctx, filler, programMark) == nil {
		return nil // another process has been faster
	}
	name := strings.TrimPrefix(programFile, binFolder+"/")
	err = v.put(ctx, filler, binFolder, func(w *tar.Writer) error { return v.executor.program.writeTo(w, name) })
	if err != nil {
		return v.executor.failed(ctx, "copying the step-runner to the engine", err)
	}
	if err := v.verifyProgram(ctx, filler, digest); err != nil {
		return err
	}
	err = v.put(ctx, filler, binFolder, func(w *tar.Writer) error {
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(programMark, binFolder+"/"), Mode: 0o644})
	})
	if err != nil {
		return v.executor.failed(ctx, "copying the step-runner to the engine", err)
	}
	v.executor.removeOldPrograms(ctx)
	return nil
}

// verifyProgram reads the step-runner back from a container.
func (v *preparation) verifyProgram(ctx context.Context, container, digest string) error {
	const doing = "reading the step-runner back from the engine"
	archive, err := v.executor.client.Containers.ReadFiles(ctx, container, programFile)
	if err != nil {
		return v.executor.failed(ctx, doing, err)
	}
	defer archive.Close()
	in, hash := tar.NewReader(archive), sha256.New()
	if _, err = in.Next(); err == nil {
		_, err = io.Copy(hash, in)
	}
	if err != nil {
		return v.executor.failed(ctx, doing, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != digest {
		return fmt.Errorf("the engine at %s has a step-runner with digest sha256:%s, and sha256:%s was copied to it; free space on its disk and run the job again", v.executor.engine, got, digest)
	}
	return nil
}

// removeOldPrograms removes the volumes of older step-runners. Those in use stay: the engine refuses. What cannot be removed now can be
// when the next one is added.
func (e *Executor) removeOldPrograms(ctx context.Context) {
	volumes, err := e.client.Volumes.Labelled(ctx, programLabel)
	if err != nil {
		return
	}
	slices.SortFunc(volumes, func(a, b engine.Volume) int { return b.CreatedAt.Compare(a.CreatedAt) })
	for _, old := range volumes[min(keptPrograms, len(volumes)):] {
		_ = e.client.Volumes.Remove(ctx, old.Name)
	}
}

// sharesProgram reports whether a container may have the volume: not where it could write to it, as with more rights than usual.
func (e *Executor) sharesProgram(host *engine.HostConfig) bool {
	more := len(host.CapAdd)+len(host.Devices)+len(host.DeviceCgroupRules)+len(host.SecurityOpt) > 0 || host.PidMode != ""
	return e.program.shared && !host.Privileged && !more
}
