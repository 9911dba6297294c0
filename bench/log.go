//go:build unix

package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// logFigures are of a job that logs much, in a pipeline on this machine: every byte of it is masked, recorded and, unless --progress says
// quiet, shown. The peer is the same bytes through a pipe into a file. Both have their files in memory where that can hold any.
var logFigures = []figure{
	{name: "1 GB of log, to a pipe into a file", unit: "x ", target: 1.5, measure: logging("")},
	{name: "1 GB of log with a secret, to the same pipe", unit: "x ", target: 3, measure: logging("a secret value")},
	{name: "memory of 1 GB of log, to 10 MB", unit: "x ", target: 1.1, measure: loggingMemory},
}

// Sizes of logs, in bytes.
const (
	longLog  = 1e9
	shortLog = 1e7
)

// logOf makes a file with so many bytes of log, and a job that prints it.
func (w *world) logOf(size int, secret string) (job command, log string, err error) {
	memory, err := w.memory()
	if err != nil {
		return job, "", err
	}
	log = filepath.Join(memory, fmt.Sprintf("%d.log", size))
	if _, err := os.Stat(log); err != nil {
		if err := writeLog(log, size); err != nil {
			return job, "", err
		}
	}
	name := "log"
	if secret != "" {
		name = "secret-log"
	}
	dir, err := w.repository(fmt.Sprintf("%s-%d", name, size), fmt.Sprintf("loud:\n  variables: {GIT_STRATEGY: none}\n  script: [cat %s]\n", log))
	if err == nil && secret != "" {
		if err = os.MkdirAll(filepath.Join(dir, ".rung"), 0o755); err == nil {
			err = os.WriteFile(filepath.Join(dir, ".rung", "variables.yml"), fmt.Appendf(nil, "TOKEN: {value: %s, masked: true}\n", secret), 0o600)
		}
	}
	return command{args: []string{w.runner, "local", "--isolation", "none", "--progress", "quiet"}, dir: dir, env: []string{"TMPDIR=" + memory}}, log, err
}

// writeLog writes the log of a build, a line of 90 bytes after another.
func writeLog(path string, size int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out, written := bufio.NewWriterSize(file, 1<<20), 0
	for i := 0; written < size; i++ {
		n, _ := fmt.Fprintf(out, "2026-11-21T06:20:%02d.%03dZ compiling package number %d of the project, with flags -O2 -g\n", i%60, i%1000, i)
		written += n
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return file.Close()
}

// logging returns the median ratio of a job that prints a long log to a pipe into a file.
func logging(secret string) func(*world) (float64, string, error) {
	return func(w *world) (float64, string, error) {
		job, log, err := w.logOf(longLog, secret)
		if err != nil {
			return 0, "", err
		}
		copied := filepath.Join(w.inMemory, "copied")
		defer os.Remove(copied)
		pipe := command{args: []string{"sh", "-c", `cat "$0" | cat > "$1"`, log, copied}, dir: w.dir}
		var ratios []float64
		var ours, theirs []time.Duration
		for range min(w.rounds, 5) {
			a, err := job.run()
			if err != nil {
				return 0, "", err
			}
			if err := os.RemoveAll(filepath.Join(job.dir, ".rung", "traces")); err != nil {
				return 0, "", err
			}
			b, err := pipe.run()
			if err != nil {
				return 0, "", err
			}
			if err := os.Remove(copied); err != nil {
				return 0, "", err
			}
			ours, theirs, ratios = append(ours, a), append(theirs, b), append(ratios, float64(a)/float64(b))
		}
		return median(ratios), fmt.Sprintf("cat | cat > FILE in %s, the whole of local in %s", ms(median(theirs)), ms(median(ours))), nil
	}
}

// loggingMemory compares the peak memory of a long log with that of a short one.
func loggingMemory(w *world) (float64, string, error) {
	var peaks [2]float64
	for i, size := range []int{longLog, shortLog} {
		job, _, err := w.logOf(size, "")
		if err != nil {
			return 0, "", err
		}
		peak, err := job.peak()
		if err != nil {
			return 0, "", err
		}
		peaks[i] = float64(peak) / 1e3
		if err := os.RemoveAll(filepath.Join(job.dir, ".rung")); err != nil {
			return 0, "", err
		}
	}
	return peaks[0] / peaks[1], fmt.Sprintf("%.1f MB against %.1f MB", peaks[0], peaks[1]), nil
}
