//go:build unix

// Command bench measures the figures that Rung promises, each beside its peer in the same run, and prints them as ratios.
//
//	go run ./bench            # all of them
//	go run ./bench -run steps # those whose name holds "steps"
//	go run ./bench -peer FILE # and the service, beside that of the existing step-runner
//	scripts/engine.sh go run ./bench -run container # with a container engine
//
// Absolute times differ between machines and from hour to hour; ratios taken in turn, one of ours and one of the peer's, hold.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/bench/machines"
)

// figure is one promise.
type figure struct {
	name   string
	unit   string
	target float64 // at most, or at least where more is better
	more   bool
	// measure returns the figure and, in words, what it was measured against.
	measure func(*world) (float64, string, error)
}

// skipped is why a figure cannot be measured on this machine.
type skipped string

func (s skipped) Error() string { return string(s) }

// targetText is the target as people read it: "<= 1.3 x".
func (f figure) targetText() string {
	sign := "<="
	if f.more {
		sign = ">="
	}
	return strings.TrimSpace(fmt.Sprintf("%s %g %s", sign, f.target, f.unit))
}

// figures are all that are measured without a peer that has to be named.
func figures() []figure {
	return slices.Concat(processFigures, replayFigures, memoryFigures, maskFigures, sourceFigures, serviceFigures, packFigures, pipelineFigures,
		logFigures, workflowFigures, checkFigures, managerFigures, cgroupFigures, sandboxFigures, containerFigures, fleetFigures, machineFigures, sizeFigures)
}

// world is what the measurements share.
type world struct {
	dir    string // scratch
	runner string // the step-runner binary, stripped
	peer   string // the binary of the existing step-runner; "" has none
	rounds int
	// inMemory is a folder whose files are in memory; see memory.
	inMemory string
}

func main() {
	match := flag.String("run", "", "measure only figures whose name holds this text")
	rounds := flag.Int("rounds", 11, "how many times each command runs; the median counts")
	peer := flag.String("peer", "", "measure the service beside that of the existing step-runner (v0.11), whose binary is this file")
	serve := flag.Int(machines.Flag, 0, "serve so many machines for another bench, until the input ends")
	authorized := flag.String(machines.FlagAuthorized, "", "a file of the keys that -machines let in")
	flag.Parse()
	if *serve > 0 {
		if err := machines.Serve(*serve, *authorized); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(*match, *peer, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(match, peer string, rounds int) error {
	dir, err := os.MkdirTemp("", "rung-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w := &world{dir: dir, runner: filepath.Join(dir, "step-runner"), peer: peer, rounds: rounds}
	build := exec.Command("scripts/build.sh", w.runner, "./cmd/step-runner")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building step-runner: %w", err)
	}
	defer func() { _ = os.RemoveAll(w.inMemory) }()
	fmt.Printf("%-44s %15s %12s  %s\n", "figure", "measured", "target", "against")
	all := figures()
	if peer != "" {
		all = append(all, peerFigures...)
	}
	for _, f := range all {
		if !strings.Contains(f.name, match) {
			continue
		}
		got, against, err := f.measure(w)
		if reason := skipped(""); errors.As(err, &reason) {
			fmt.Printf("%-44s %15s %12s  skipped: %s\n", f.name, "", f.targetText(), reason)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		verdict := ""
		if f.more && got < f.target || !f.more && got > f.target {
			verdict = "  (missed)"
		}
		fmt.Printf("%-44s %10.2f %-4s %12s  %s%s\n", f.name, got, f.unit, f.targetText(), against, verdict)
	}
	return nil
}
