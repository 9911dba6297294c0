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
	"syscall"
	"time"
)

// processFigures time whole programs.
var processFigures = []figure{
	{
		name: "100 script steps, to a bare loop", unit: "x ", target: 1.25,
		measure: against("script", 100, `for i in $(seq 100); do bash -c true; done`),
	},
	{
		name: "100 exec steps, to a bare loop", unit: "x ", target: 1.4,
		measure: against("exec", 100, `for i in $(seq 100); do /bin/true; done`),
	},
	// These two were promised for a machine that starts and ends a bash in 1.2 ms; the measured time is scaled to it.
	{name: "whole process, 1 script step", unit: "ms", target: 12, measure: scaled("script", 1)},
	{name: "whole process, 100 script steps", unit: "ms", target: 160, measure: scaled("script", 100)},
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
			if a, _, err = first.run(); err != nil {
				return 0, "", err
			}
			if b, _, err = again.run(); err != nil {
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
			_, peak, err := s.run()
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
			_, less, err := terse.run()
			if err != nil {
				return 0, "", err
			}
			_, more, err := loud.run()
			return float64(more) / float64(less), fmt.Sprintf("%.1f MB against %.1f MB", float64(more)/1e3, float64(less)/1e3), err
		},
	},
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

// run runs the command once and returns its wall time and peak memory in KiB.
func (c command) run() (time.Duration, int64, error) {
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Dir = c.dir
	if c.env != nil {
		cmd.Env = append(os.Environ(), c.env...)
	}
	var out bytes.Buffer
	cmd.Stderr = &out
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w\n%s", strings.Join(c.args, " "), err, out.String())
	}
	usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return took, usage.Maxrss, nil
}

// stepsOf are the steps of a list, by kind; %d is their number.
var stepsOf = map[string]string{
	"script": "- {name: s%d, script: 'true'}\n",
	"exec":   "- {name: s%d, exec: {command: [/bin/true]}}\n",
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
		a, _, err := ours.run()
		if err != nil {
			return nil, nil, err
		}
		b, _, err := peer.run()
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
