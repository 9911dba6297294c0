//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// processFigures time whole programs.
var processFigures = []figure{
	{name: "program start, to an empty Go program", unit: "x ", target: 4, measure: programStart},
	{
		name: "100 script steps, to a bare loop", unit: "x ", target: 1.2,
		measure: against("script", 100, `for i in $(seq 100); do bash -c true; done`),
	},
	{
		name: "100 exec steps, to a bare loop", unit: "x ", target: 1.3,
		measure: against("exec", 100, `for i in $(seq 100); do /bin/true; done`),
	},
	// These two were promised for a machine that starts and ends a bash in 1.2 ms; the measured time is scaled to it.
	{name: "whole process, 1 script step", unit: "ms", target: 10, measure: scaled("script", 1)},
	{name: "whole process, 100 script steps", unit: "ms", target: 140, measure: scaled("script", 100)},
	{name: "confining a step", unit: "ms", target: 8, measure: confining},
}

// replayFigures compare a replay with the run that it repeats.
var replayFigures = []figure{{
	name: "replay of 1,000 steps, to the first run", unit: "x ", target: 1.3,
	measure: func(w *world) (float64, string, error) {
		first, err := w.ours("script", 1000)
		if err != nil {
			return 0, "", err
		}
		again := command{args: []string{w.runner, "replay", filepath.Join(w.dir, "trace.json")}, dir: w.dir}
		var ratios []float64
		var a, b time.Duration
		for range min(w.rounds, 5) {
			if a, err = first.run(); err != nil {
				return 0, "", err
			}
			if b, err = again.run(); err != nil {
				return 0, "", err
			}
			ratios = append(ratios, float64(b)/float64(a))
		}
		return median(ratios), fmt.Sprintf("%s after %s, the comparison included", ms(b), ms(a)), nil
	},
}}

// memoryFigures are peaks of the step-runner process.
var memoryFigures = []figure{
	{
		name: "peak memory, 100 script steps", unit: "MB", target: 20,
		measure: func(w *world) (float64, string, error) {
			s, err := w.ours("script", 100)
			if err != nil {
				return 0, "", err
			}
			peak, err := s.peak()
			return float64(peak) / 1e3, "the process alone, trace on", err
		},
	},
	{name: "memory of its own, 100 script steps", unit: "MB", target: 8, measure: ownMemory},
	{
		name: "peak memory, 10,000 exec steps", unit: "MB", target: 60,
		measure: func(w *world) (float64, string, error) {
			s, err := w.ours("exec", 10_000)
			if err != nil {
				return 0, "", err
			}
			peak, err := s.peak()
			return float64(peak) / 1e3, "the process alone, trace on", err
		},
	},
	{
		name: "memory of 10,000 steps, 44 MB of log to 0.2", unit: "x ", target: 1.1,
		measure: func(w *world) (float64, string, error) {
			terse, err := w.ours("terse", 10_000)
			if err != nil {
				return 0, "", err
			}
			loud, err := w.ours("loud", 10_000)
			if err != nil {
				return 0, "", err
			}
			less, err := terse.peak()
			if err != nil {
				return 0, "", err
			}
			more, err := loud.peak()
			return float64(more) / float64(less), fmt.Sprintf("%.1f MB against %.1f MB", float64(more)/1e3, float64(less)/1e3), err
		},
	},
}

// emptyProgram is a Go program that does nothing, built as ours is.
func (w *world) emptyProgram() (command, error) {
	dir := filepath.Join(w.dir, "empty")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return command{}, err
	}
	for name, text := range map[string]string{"go.mod": "module empty\n\ngo 1.26\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return command{}, err
		}
	}
	program := filepath.Join(dir, "empty")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return command{}, fmt.Errorf("building an empty program: %w\n%s", err, out)
	}
	return command{args: []string{program}, dir: w.dir}, nil
}

// programStart is how long a program that does next to nothing takes, from its start to its end, to an empty one. One start is too short
// to be timed alone.
func programStart(w *world) (float64, string, error) {
	empty, err := w.emptyProgram()
	if err != nil {
		return 0, "", err
	}
	ours := command{args: []string{w.runner, "version"}, dir: w.dir}
	const starts = 20
	var ratios []float64
	var mine, theirs []time.Duration
	for range w.rounds {
		var took [2]time.Duration
		for range starts {
			for i, c := range []command{ours, empty} {
				one, err := c.run()
				if err != nil {
					return 0, "", err
				}
				took[i] += one
			}
		}
		mine, theirs = append(mine, took[0]/starts), append(theirs, took[1]/starts)
		ratios = append(ratios, float64(took[0])/float64(took[1]))
	}
	return median(ratios), fmt.Sprintf("an empty static Go program in %s, step-runner version in %s", ms(median(theirs)), ms(median(mine))), nil
}

// ownMemory is the peak of a run beyond that of a program that only says its version: what of both is the program's own file counts for
// neither.
func ownMemory(w *world) (float64, string, error) {
	run, err := w.ours("script", 100)
	if err != nil {
		return 0, "", err
	}
	version := command{args: []string{w.runner, "version"}, dir: w.dir}
	var own []float64
	var peaks, bases []float64
	for range w.rounds {
		peak, err := run.peak()
		if err != nil {
			return 0, "", err
		}
		base, err := version.peak()
		if err != nil {
			return 0, "", err
		}
		peaks, bases, own = append(peaks, float64(peak)/1e3), append(bases, float64(base)/1e3), append(own, float64(peak-base)/1e3)
	}
	return median(own), fmt.Sprintf("%.1f MB against %.1f MB of step-runner version", median(peaks), median(bases)), nil
}

// sizeFigures are of the binary.
var sizeFigures = []figure{{
	name: "stripped static step-runner", unit: "MB", target: 32,
	measure: func(w *world) (float64, string, error) {
		info, err := os.Stat(w.runner)
		if err != nil {
			return 0, "", err
		}
		return float64(info.Size()) / 1e6, "", nil
	},
}}

// command is a program to time.
type command struct {
	args []string
	dir  string
	env  []string // over that of this process
}

// in is a program that is run in the folder and with the environment of the command.
func (c command) in(args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = c.dir
	if c.env != nil {
		cmd.Env = append(os.Environ(), c.env...)
	}
	return cmd
}

// run runs the command once and returns its wall time.
func (c command) run() (time.Duration, error) {
	cmd := c.in(c.args...)
	var out bytes.Buffer
	cmd.Stderr = &out
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", strings.Join(c.args, " "), err, out.String())
	}
	return took, nil
}

// stepsOf are the steps of a list, by kind; %d is their number.
var stepsOf = map[string]string{
	"script": "- {name: s%d, script: 'true'}\n",
	"exec":   "- {name: s%d, exec: {command: [/bin/true]}}\n",
	"apart":  "- {name: s%d, exec: {command: [/bin/true]}, confine: true}\n",
	"terse":  "- {name: s%d, exec: {command: [seq, '10']}}\n",   // 21 bytes of log a step
	"loud":   "- {name: s%d, exec: {command: [seq, '1100']}}\n", // 4,393 bytes
}

// ours is step-runner with a list of n steps of a kind, its trace on.
func (w *world) ours(kind string, n int) (command, error) {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, stepsOf[kind], i)
	}
	file := filepath.Join(w.dir, fmt.Sprintf("%s-%d.yml", kind, n))
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		return command{}, err
	}
	trace := filepath.Join(w.dir, "trace.json")
	return command{args: []string{w.runner, "run", file, "--output-file", trace, "--progress", "plain"}, dir: w.dir}, nil
}

// inTurn times our steps and a shell's loop in turn, one of each, and returns the times of both.
func (w *world) inTurn(kind string, n int, loop string) (mine, theirs []time.Duration, err error) {
	ours, err := w.ours(kind, n)
	if err != nil {
		return nil, nil, err
	}
	peer := command{args: []string{"bash", "-c", loop}, dir: w.dir}
	for range w.rounds {
		a, err := ours.run()
		if err != nil {
			return nil, nil, err
		}
		b, err := peer.run()
		if err != nil {
			return nil, nil, err
		}
		mine, theirs = append(mine, a), append(theirs, b)
	}
	return mine, theirs, nil
}

// against returns the median ratio of our steps to a shell's loop.
func against(kind string, n int, loop string) func(*world) (float64, string, error) {
	return func(w *world) (float64, string, error) {
		mine, theirs, err := w.inTurn(kind, n, loop)
		if err != nil {
			return 0, "", err
		}
		ratios := make([]float64, len(mine))
		for i := range mine {
			ratios[i] = float64(mine[i]) / float64(theirs[i])
		}
		return median(ratios), fmt.Sprintf("%s in %s, the whole process in %s", loop, ms(median(theirs)), ms(median(mine))), nil
	}
}

// confining returns the milliseconds that a step takes longer when it is confined, on a machine where a bash takes bashTime.
func confining(w *world) (float64, string, error) {
	const steps = 50
	loop := fmt.Sprintf("for i in $(seq %d); do bash -c true; done", steps)
	apart, loops, err := w.inTurn("apart", steps, loop)
	if err != nil {
		return 0, "", err
	}
	free, _, err := w.inTurn("exec", steps, loop)
	if err != nil {
		return 0, "", err
	}
	more, bash := (median(apart)-median(free))/steps, median(loops)/steps
	return more.Seconds() * 1e3 * float64(bashTime) / float64(bash), fmt.Sprintf("here %s, where a bash takes %s", ms(more), ms(bash)), nil
}

// bashTime is how long a bash takes on the machine that the figures were promised for.
const bashTime = 1200 * time.Microsecond

// scaled returns the milliseconds of our steps on a machine where a bash takes bashTime. A shell's loop, timed in turn, says
// how long it takes on this one.
func scaled(kind string, n int) func(*world) (float64, string, error) {
	return func(w *world) (float64, string, error) {
		const loops = 100
		mine, theirs, err := w.inTurn(kind, n, fmt.Sprintf("for i in $(seq %d); do bash -c true; done", loops))
		if err != nil {
			return 0, "", err
		}
		here, bash := median(mine), median(theirs)/loops
		return here.Seconds() * 1e3 * float64(bashTime) / float64(bash), fmt.Sprintf("here %s, where a bash takes %s", ms(here), ms(bash)), nil
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1e3) }

func median[T float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
