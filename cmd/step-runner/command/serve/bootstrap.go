package serve

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
)

func (a *app) bootstrapCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "bootstrap DIR",
		Short: "Copy this program to a folder",
		Long: `bootstrap copies this program to DIR/step-runner, executable for everyone, so that another environment that shares the
folder, such as a container, can run it. It creates DIR if needed, writes the copy atomically, and does nothing if the same
program already exists.

Exit codes: 0 success · 2 usage · 4 permission denied · 5 internal error`,
		Example: `  step-runner bootstrap /shared/bin`,
		Args:    command.Arguments(1, 1, "the folder to copy this program to"),
		RunE: func(_ *cobra.Command, args []string) error {
			program, err := os.Executable()
			if err != nil {
				return exit.Coded(exit.System, "finding this program's file: %v", err)
			}
			err = bootstrap(program, args[0])
			if err != nil && !errors.Is(err, os.ErrPermission) {
				return exit.Coded(exit.System, "%v", err)
			}
			return err
		},
	}
}

// bootstrapMode is that of the copy: everybody may run it, its owner may replace it.
const bootstrapMode = 0o755

// bootstrap copies the program into a folder.
func bootstrap(program, dir string) (err error) {
	if err := os.MkdirAll(dir, bootstrapMode); err != nil {
		return err
	}
	target := filepath.Join(dir, "step-runner")
	if runtime.GOOS == "windows" {
		target += ".exe"
	}
	if isCopy(program, target) {
		return nil
	}
	from, err := os.Open(program)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.CreateTemp(dir, ".step-runner-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = to.Close()
			_ = os.Remove(to.Name())
		}
	}()
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	if err := to.Chmod(bootstrapMode); err != nil && runtime.GOOS != "windows" {
		return err
	}
	if err := to.Sync(); err != nil {
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	return os.Rename(to.Name(), target)
}

// isCopy reports whether the target is the program, or the same in mode and content.
func isCopy(program, target string) bool {
	mine, err := os.Stat(program)
	if err != nil {
		return false
	}
	there, err := os.Stat(target)
	if err != nil || there.Size() != mine.Size() || runtime.GOOS != "windows" && there.Mode() != bootstrapMode {
		return false
	}
	if os.SameFile(mine, there) {
		return true
	}
	a, err := contentDigest(program)
	if err != nil {
		return false
	}
	b, err := contentDigest(target)
	return err == nil && a == b
}

func contentDigest(path string) (out [sha256.Size]byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return out, err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return out, err
	}
	return [sha256.Size]byte(sum.Sum(nil)), nil
}
