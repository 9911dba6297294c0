package serve

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/builtinexit"
	"github.com/rungci/rung/steps/catalog/program"
)

func TestTheExitCodeOfABuiltInStep(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a full disk has another error on Windows")
	}
	full := fmt.Errorf("packing: %w", &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	for name, test := range map[string]struct {
		err  error
		want int
	}{
		"a mistake":             {errors.New("a mistake"), exit.StepsFailed},
		"what it ran failed":    {fmt.Errorf("git: %w", &program.ExitError{Program: "git", Code: 128}), 128},
		"a disk that is full":   {full, builtinexit.DiskFull},
		"a server that is down": {fmt.Errorf("the secret x: %w", &program.UnavailableError{Err: errors.New("refused")}), builtinexit.Unavailable},
	} {
		if code, _ := exit.Report(builtinError(t.Context(), test.err)); code != test.want {
			t.Errorf("%s: the exit code is %d, not %d", name, code, test.want)
		}
	}
}
