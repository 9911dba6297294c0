package rootfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
)

// Where a sandbox has what is not of its image.
const (
	// Builds is the folder for jobs' files.
	Builds = "builds"
	// Own is the folder of ours.
	Own = "opt/rung"
	// Program is the step-runner.
	Program = Own + "/bin/step-runner"
	// Run is the folder for the step-runner's socket.
	Run = Own + "/run"
)

// forAll are the permissions of folders in which every user makes folders of their own.
const forAll = 0o777 | fs.ModeSticky

// Furnish makes the places in a root where a sandbox has something mounted, or makes folders: a runtime would make them, too, each time in
// the root itself. What is there stays as it is, but for Builds and Run. Others may do the same at the same time.
func Furnish(dir string) (err error) {
	const places = 20 // more than are made: each can be there just when it is to be made
	for range places {
		if err = furnish(dir); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return err
}

func furnish(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	resolve := &layers{root: root}
	for _, folder := range []struct {
		name string
		mode fs.FileMode
	}{{"proc", 0o755}, {"sys", 0o755}, {"dev", 0o755}, {"tmp", forAll}, {"etc", 0o755}, {Builds, forAll}, {path.Dir(Program), 0o755}, {Run, forAll}} {
		_, err := root.Lstat(folder.name)
		missing := errors.Is(err, fs.ErrNotExist)
		at, err := resolve.folder(folder.name)
		if err == nil && (missing || folder.name == Builds || folder.name == Run) {
			err = root.Chmod(at, folder.mode)
		}
		if err != nil {
			return err
		}
	}
	for _, file := range []string{Program, "etc/hosts", "etc/resolv.conf", "etc/hostname"} {
		at, err := resolve.folder(path.Dir(file))
		if err != nil {
			return err
		}
		name := path.Join(at, path.Base(file))
		if _, err := root.Lstat(name); err == nil {
			continue
		}
		made, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		if err := made.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Read returns the content of a file of a root, up to a limit in bytes; nil where there is none. Links are followed as in the root.
func Read(dir, file string, limit int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	in, err := root.Open(path.Join(".", file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(io.LimitReader(in, limit))
}
