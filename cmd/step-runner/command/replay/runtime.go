package replay

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/runner"
	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/steps/trace"
)

// handedOverName is set for a step-runner that another one has handed a replay over to, so that it does not do so again.
const handedOverName = "RUNG_REPLAY_HANDED_OVER"

// handOver lets the step-runner that made the recorded run replay it, where it is at hand. It returns where it is not, or where
// that is this one.
func (r *replaying) handOver(ctx context.Context, recorded *trace.Trace) error {
	was, now := recorded.Runtime, runner.Digest()
	if was.Digest == "" || now == "" { // the trace of a run that was killed does not say
		if was.Version != r.Program.Version {
			r.notes = append(r.notes, fmt.Sprintf("the recorded run was made by step-runner %s, and this is %s", was.Version, r.Program.Version))
		}
		return nil
	}
	if was.Digest == now {
		return nil
	}
	if r.Program.Getenv(handedOverName) == "" {
		file, err := r.runtimeWith(ctx, was.Digest)
		if err != nil {
			return err
		}
		if file != "" {
			return takeOver(ctx, file, os.Args[1:], append(slices.Clone(r.Program.Env), handedOverName+"=1"))
		}
	}
	text := fmt.Sprintf("the recorded run was made by step-runner %s, and this is %s", was.Version, r.Program.Version)
	if was.Version == r.Program.Version {
		text = fmt.Sprintf("the recorded run was made by another build of step-runner %s", was.Version)
	}
	r.notes = append(r.notes, text+"; --runtime FILE names the other, if you have it")
	return nil
}

// runtimeWith finds the step-runner with a digest: the one that --runtime names, or one in PATH. It is "" where there is none.
func (r *replaying) runtimeWith(ctx context.Context, digest string) (string, error) {
	if r.runtime != "" {
		file, err := filepath.Abs(r.runtime)
		if err != nil {
			return "", exit.Coded(exit.System, "--runtime: %v", err)
		}
		if _, err := os.Stat(file); err != nil {
			return "", exit.Coded(exit.NotFound, "--runtime: %v", err)
		}
		if runner.ComputeDigest(file) != digest {
			return "", exit.Coded(exit.Denied, "--runtime: %s is not the step-runner that made the recorded run", r.runtime)
		}
		return file, nil
	}
	name := "step-runner"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	for _, dir := range filepath.SplitList(r.Program.Getenv("PATH")) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); !filepath.IsAbs(dir) || err != nil || !info.Mode().IsRegular() {
			continue
		}
		if runner.ComputeDigest(file) == digest && replays(ctx, file, r.Program.Env) {
			return file, nil
		}
	}
	return "", nil
}

// replays reports whether a step-runner is new enough to have the command.
func replays(ctx context.Context, file string, env []string) bool {
	result, err := process.Run(ctx, nil, process.Spec{Args: []string{file, "replay", "--help"}, Env: unique(env)})
	return err == nil && result.ExitCode == 0
}

// unique keeps the last of the variables with one name.
func unique(env []string) []string {
	last := map[string]string{}
	for _, pair := range env {
		name, _, _ := strings.Cut(pair, "=")
		last[name] = pair
	}
	out := make([]string, 0, len(last))
	for _, pair := range last {
		out = append(out, pair)
	}
	slices.Sort(out)
	return out
}
