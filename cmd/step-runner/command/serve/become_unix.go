//go:build unix

package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
)

// notFound is what a shell ends with that cannot start a program.
const notFound = 127

// becomeCommand becomes the program that its file descriptor 3 describes, which keeps its arguments and environment off command lines and disks.
// Where no descriptor can be handed over, a file does, which is removed before anything else can read it.
func (a *app) becomeCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:    "become",
		Short:  "Become the program that file descriptor 3, or a file, describes",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			err := becomeFrom(file)
			return exit.Coded(notFound, "%v", err)
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "read `FILE` and remove it; what it says of the environment is added to this process's")
	return cmd
}

// becomeFrom returns only with an error. Without a file, descriptor 3 is read.
func becomeFrom(file string) error {
	if file == "" {
		return become(os.NewFile(3, "the description of a program"), nil) //nolint:mnd // as it says
	}
	from, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("cannot become a program: %w", err)
	}
	if err := os.Remove(file); err != nil {
		return fmt.Errorf("cannot become a program: %w", err)
	}
	return become(from, os.Environ())
}

// become returns only with an error. The program has the variables of keep, and over them those of its description.
func become(from *os.File, keep []string) error {
	var it struct {
		Args, Env []string
		Cwd       string
	}
	text, err := io.ReadAll(from)
	if err == nil {
		err = json.Unmarshal(text, &it)
	}
	if err == nil && len(it.Args) == 0 {
		err = errors.New("it names no program")
	}
	if err != nil {
		return fmt.Errorf("cannot become a program: its description cannot be read: %w", err)
	}
	_ = from.Close()
	os.Clearenv()
	for _, pair := range slices.Concat(keep, it.Env) {
		name, value, _ := strings.Cut(pair, "=")
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("cannot become a program: the variable %q: %w", name, err)
		}
	}
	if err := os.Chdir(it.Cwd); err != nil {
		return fmt.Errorf("cannot become %s: %w", it.Args[0], err)
	}
	path, err := exec.LookPath(it.Args[0])
	if err == nil {
		err = syscall.Exec(path, it.Args, os.Environ())
	}
	return fmt.Errorf("cannot become %s: %w", it.Args[0], err)
}
