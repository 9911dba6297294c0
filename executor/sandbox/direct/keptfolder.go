package direct

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/usage"
	"github.com/rungci/rung/internal/lockedfile"
)

// What is kept for later jobs (Job.KeepProject, Job.KeepVolumes) is in folders of this machine, which are mounted in sandboxes:
//
//	CACHE/projects/NAME.0/PROJECT    at /builds/PROJECT
//	CACHE/projects/NAME.0.busy       the folder of the environment that has it, or had it: it has it for as long as that folder exists
//	CACHE/volumes/NAME-HASH/files    at a place of Options.Volumes.Kept
//
// With Job.Root they are in that folder. A job can change what is in PROJECT and files alone: their own names are in a folder that only root may enter, and their
// places in a sandbox, which are mount points, can be neither moved nor replaced. What is in them is not looked into from outside, but to measure and to
// remove it, which follows no links.

const (
	// projectsFolder and volumesFolder are in Options.Cache, and what they hold is on record in Setup.Uses.
	projectsFolder, volumesFolder = "projects", "volumes"
	// filesFolder holds the files of a volume.
	filesFolder = "files"
	// busySuffix ends the name of the file that says who has a kept folder, beside it.
	busySuffix = ".busy"
	// maxKept bounds how many jobs may have project folders of the same name at once: each has one of its own.
	maxKept = 1000
	// keptMode is for folders that only root enters.
	keptMode = 0o700
)

// keptFolder is a folder of this machine in a sandbox.
type keptFolder struct {
	source, target string
	fresh          bool // it was just made, and is empty
}

// keeping is a preparation with what is kept.
type keeping struct{ *preparation }

// admit refuses what kept folders cannot have.
func (v keeping) admit() error {
	volumes, err := v.executor.opts.Volumes.Of(func(name string) string { return v.job.Variables[name] })
	if err != nil {
		return err
	}
	v.targets = volumes.Kept
	if v.job.Resources.Disk > 0 || v.job.ServiceResources.Disk > 0 {
		if v.job.KeepProject != "" {
			return &executor.Refusal{Level: executor.Sandbox, What: "a limit of disk space with a project folder that is kept between jobs"}
		}
		if len(v.targets) > 0 {
			return &executor.Refusal{Level: executor.Sandbox, What: "a limit of disk space with volumes"}
		}
	}
	all := slices.Clone(v.targets)
	if v.job.KeepProject != "" {
		all = append(all, path.Join(buildsFolder, v.job.ProjectName))
	}
	for _, inner := range all {
		for _, outer := range all { // where an earlier job may have put a link
			if strings.HasPrefix(inner, outer+"/") {
				return &executor.UserError{Message: fmt.Sprintf("sandboxes cannot have a volume at %s, within %s, which is kept, too", inner, outer), Hint: "name another folder"}
			}
		}
	}
	return nil
}

// claim gets the folders that the job has, and those that go with it. The folder of the environment exists.
func (v keeping) claim() error {
	if v.job.KeepProject != "" {
		if err := v.claimProject(); err != nil {
			return fmt.Errorf("finding the project folder that was kept: %w", err)
		}
	}
	for _, target := range v.targets {
		if err := v.claimVolume(target); err != nil {
			return fmt.Errorf("making a volume for %s: %w", target, err)
		}
	}
	return nil
}

// claimProject finds a project folder of the name that no other job has, or makes one.
func (v keeping) claimProject() error {
	base := cmp.Or(v.job.Root, filepath.Join(v.executor.store.Folder, projectsFolder))
	for n := range maxKept {
		folder := filepath.Join(base, v.job.KeepProject+"."+strconv.Itoa(n))
		err := v.take(folder, v.job.ProjectName, v.layout.Project, false)
		if !errors.Is(err, lockedfile.ErrInUse) {
			return err
		}
	}
	return fmt.Errorf("%d jobs already use the kept project folder %s", maxKept, v.job.KeepProject)
}

// claimVolume makes a volume, or finds it, of which the caller has seen to it that no other job has it.
func (v keeping) claimVolume(target string) error {
	sum := sha256.Sum256([]byte(target))
	name := hex.EncodeToString(sum[:6])
	base := v.at.path(volumesFolder)
	if v.job.KeepVolumes != "" {
		name = v.job.KeepVolumes + "-" + name
		base = cmp.Or(v.job.Root, v.executor.opts.Volumes.Folder, filepath.Join(v.executor.store.Folder, volumesFolder))
	}
	return v.take(filepath.Join(base, name), filesFolder, target, true)
}

// take gives a folder to the job, unless another job has it. The error is lockedfile.ErrInUse if one has. evenBusy takes it in any case.
func (v keeping) take(folder, name, target string, evenBusy bool) error {
	if err := os.MkdirAll(filepath.Dir(folder), keptMode); err != nil {
		return err
	}
	lock, err := lockKept(folder)
	if err != nil {
		return err
	}
	defer lockedfile.Close(lock)
	if !evenBusy && isBusy(folder) {
		return lockedfile.ErrInUse
	}
	_, err = lock.WriteAt([]byte(v.at.dir), 0)
	if err := errors.Join(err, lock.Truncate(int64(len(v.at.dir)))); err != nil {
		return err
	}
	if _, err := makeFolder(folder, keptMode, 0, 0); err != nil {
		return err
	}
	const forAll = 0o755
	kept := keptFolder{source: filepath.Join(folder, name), target: target}
	if kept.fresh, err = makeFolder(kept.source, forAll, v.user.UID, v.user.GID); err != nil {
		return err
	}
	v.kept = append(v.kept, kept)
	if k, own := v.executor.keptKey(folder); own {
		if err := v.executor.setup.Uses.Add(k); err != nil {
			return err
		}
	}
	v.usesKept(kept.source)
	return nil
}

// makeFolder makes a folder of a user in one that no job changes. What is not a folder is removed, and a link is none.
func makeFolder(dir string, mode fs.FileMode, uid, gid int) (fresh bool, err error) {
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = errors.Join(os.Remove(dir), fs.ErrNotExist)
	}
	if errors.Is(err, fs.ErrNotExist) {
		fresh, err = true, os.Mkdir(dir, keptMode)
	}
	return fresh, errors.Join(err, os.Lchown(dir, uid, gid), os.Chmod(dir, mode))
}

// lockKept keeps a kept folder from being taken and removed, for moments. The error is lockedfile.ErrInUse if somebody else does.
func lockKept(folder string) (*os.File, error) {
	name := folder + busySuffix
	info, err := os.Lstat(name)
	switch {
	case err == nil && info.IsDir():
		return nil, lockedfile.ErrInUse // by a job of level none in the same Job.Root
	case err == nil && !info.Mode().IsRegular(): // as one may have left there
		err = os.Remove(name)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return nil, err
	}
	lock, err := lockedfile.Open(name)
	if err != nil {
		return nil, err
	}
	opened, err := lock.Stat()
	now, wrong := os.Stat(lock.Name())
	if err = errors.Join(err, wrong); err == nil && os.SameFile(opened, now) {
		return lock, nil
	}
	return nil, errors.Join(lockedfile.ErrInUse, lockedfile.Close(lock)) // it was removed with its folder, just now
}

// isBusy reports whether a job has a kept folder; also if that cannot be known.
func isBusy(folder string) bool {
	has, err := os.ReadFile(folder + busySuffix)
	if err == nil {
		_, err = os.Lstat(string(has))
	}
	return !errors.Is(err, fs.ErrNotExist)
}

// mounts are those of the kept folders in a sandbox. The place of one below /builds is made in a folder of the sandbox's own: the image's root is that of other
// jobs, too.
func (b *box) mounts(all []keptFolder) (mounts []mount, err error) {
	all = slices.SortedFunc(slices.Values(all), func(x, y keptFolder) int { return cmp.Compare(x.target, y.target) })
	if slices.ContainsFunc(all, func(k keptFolder) bool { return strings.HasPrefix(k.target, buildsFolder+"/") }) {
		dir := b.path("builds")
		const forAll = 0o777 | fs.ModeSticky
		if err := errors.Join(os.Mkdir(dir, keptMode), os.Chmod(dir, forAll)); err != nil {
			return nil, err
		}
		all = slices.Insert(all, 0, keptFolder{source: dir, target: buildsFolder})
	}
	for _, k := range all {
		mounts = append(mounts, mount{Destination: k.target, Type: "bind", Source: k.source, Options: []string{"bind", "rw", "nodev"}})
	}
	return mounts, nil
}

// volumes are those of the job's services, too.
func (v keeping) volumes() []keptFolder {
	return slices.DeleteFunc(slices.Clone(v.kept), func(k keptFolder) bool { return k.target == v.layout.Project })
}

// own gives all that an earlier job left to the job's user, who could not remove files of root. Root can. It is done in the sandbox, where no link leads out.
func (v keeping) own(ctx context.Context) error {
	for _, k := range v.kept {
		if k.fresh || v.user.UID == 0 {
			continue
		}
		var errs bytes.Buffer
		code, err := v.run(ctx, &executor.Shell{
			Args: []string{programFile, "host", "own", strconv.Itoa(v.user.UID), strconv.Itoa(v.user.GID), k.target}, Dir: "/", Stdout: io.Discard, Stderr: &errs,
		}, user{})
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d: %s", code, strings.TrimSpace(errs.String()))
		}
		if err != nil {
			return fmt.Errorf("giving %s to the job's user: %w", k.target, err)
		}
	}
	return nil
}

// keptKey is what a kept folder is on record as. It is false for one that is neither in the cache nor in the operator's folder: that is its owner's to remove.
func (e *Executor) keptKey(folder string) (k usage.Key, own bool) {
	k = usage.Key{Place: e.store.Folder, ID: folder}
	switch filepath.Dir(folder) {
	case filepath.Join(e.store.Folder, projectsFolder):
		k.Kind = executor.StoredProject
	case filepath.Join(e.store.Folder, volumesFolder), filepath.Clean(e.opts.Volumes.Folder): // of an empty one, a folder that none is in
		k.Kind = executor.StoredVolume
	}
	return k, k.Kind != ""
}

// usesKept says that the job has what is mounted from a folder of this machine, if that is kept and on record.
func (v *environment) usesKept(source string) {
	if k, own := v.executor.keptKey(filepath.Dir(source)); own {
		v.marks.Add(v.executor.setup.Uses.Use(k))
	}
}

// discardKept removes a kept folder that is on record.
func (e *Executor) discardKept(ctx context.Context, k usage.Key) error {
	gone := ""
	err := e.setup.Uses.Remove(k, func(t usage.Thing) error {
		lock, err := lockKept(t.ID)
		if errors.Is(err, lockedfile.ErrInUse) {
			return usage.ErrInUse
		}
		if err != nil {
			return err
		}
		defer lockedfile.Close(lock)
		if isBusy(t.ID) {
			return usage.ErrInUse
		}
		if filepath.Dir(filepath.Dir(t.ID)) != e.store.Folder { // it may be on another disk
			return errors.Join(e.host.Files().RemoveAll(ctx, t.ID), os.Remove(lock.Name()))
		}
		if gone, err = os.MkdirTemp(e.store.Folder, "new-"); err != nil { // where what is left of it is removed some day
			return err
		}
		if err := os.Rename(t.ID, filepath.Join(gone, "kept")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.Remove(lock.Name())
	})
	if gone != "" { // which may take long
		err = errors.Join(err, e.host.Files().RemoveAll(ctx, gone))
	}
	return err
}
