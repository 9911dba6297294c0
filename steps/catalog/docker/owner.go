package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/steps/catalog/program"
)

// ownProgram is where the container that gives files back finds this program.
const ownProgram = "/rung/step-runner"

// giveBack makes the files that a container's root has left in the work directory this user's: nobody else could remove them. Where this
// user is root, or root of the container is this user, there is nothing to do. A failure is told, and no more: the action has done its work.
func giveBack(call *program.Call, engine, image, dir string) {
	if os.Geteuid() <= 0 || !hasOthers(dir) {
		return
	}
	self, err := os.Executable()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	err = call.Run(ctx, "", nil, engine, "run", "--rm", "--network", "none", "--user", "0:0", "--volume", self+":"+ownProgram+":ro", "--volume", dir+":"+workspace,
		"--entrypoint="+ownProgram, "--", image, "builtin", "docker/own", fmt.Sprintf("%d", os.Getuid()), fmt.Sprintf("%d", os.Getgid()), workspace)
	if err != nil {
		fmt.Fprintf(call.Stderr, "warning: files that the action left belong to root: %v\n", err)
	}
}

// hasOthers reports whether a file below a folder belongs to another user.
func hasOthers(dir string) bool {
	found := false
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			found = found || os.IsPermission(err)
			return nil //nolint:nilerr // what cannot be read is somebody else's
		}
		if info, err := entry.Info(); err == nil && !mine(info) {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// folderDigest is a digest of the files of a folder: their names, kinds and contents, and whether they can be executed. Other permissions differ
// from one copy of an action to the next.
func folderDigest(dir string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		if entry.IsDir() && name == ".git" {
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		executable := entry.Type().IsRegular() && info.Mode()&0o111 != 0
		fmt.Fprintf(sum, "%q %s %t\n", filepath.ToSlash(name), entry.Type(), executable)
		switch {
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(file)
			fmt.Fprintf(sum, "%q\n", target)
			return err
		case entry.Type().IsRegular():
			return addFile(sum, file)
		}
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

func addFile(to io.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(to, f)
	fmt.Fprintf(to, "\n%d\n", n)
	return err
}

// Own gives all below folders to a user: args are the user's and the group's numbers, and the folders. Links are not followed.
func Own(args []string) error {
	var uid, gid int
	if len(args) < 3 {
		return fmt.Errorf("docker/own takes a user, a group and folders")
	}
	if _, err := fmt.Sscan(strings.Join(args[:2], " "), &uid, &gid); err != nil {
		return err
	}
	for _, dir := range args[2:] {
		err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(file, uid, gid)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
