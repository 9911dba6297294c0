//go:build unix

package main

import (
	"bytes"
	"fmt"
	"syscall"
	"time"

	"github.com/rungci/rung/internal/mask"
)

// maskFigures are of the path that every byte of a log takes.
var maskFigures = []figure{
	{
		name: "masking a log, 200 secrets", unit: "MB/s", target: 200, more: true,
		measure: func(w *world) (float64, string, error) {
			with, without := w.maskSpeeds(200, 1)
			return median(with), fmt.Sprintf("one secret: %.0f MB/s; gitlab-runner 19.4 had 44 with 200", median(without)), nil
		},
	},
	{
		name: "masking, 1,000 secrets to 100", unit: "x ", target: 0.8, more: true,
		measure: func(w *world) (float64, string, error) {
			many, few := w.maskSpeeds(1000, 100)
			ratios := make([]float64, len(many))
			for i := range many {
				ratios[i] = many[i] / few[i]
			}
			return median(ratios), fmt.Sprintf("%.0f MB/s against %.0f MB/s", median(many), median(few)), nil
		},
	},
}

// maskSpeeds returns how many megabytes of a log pass in a second of processor time, with so many secrets and with so many, measured in turn.
func (w *world) maskSpeeds(a, b int) (speedsA, speedsB []float64) {
	var log bytes.Buffer
	for i := 0; log.Len() < 16<<20; i++ {
		fmt.Fprintf(&log, "2026-11-21T06:20:%02d.%03dZ compiling package number %d of the project, with flags -O2 -g\n", i%60, i%1000, i)
	}
	setA, setB := secrets(a), secrets(b)
	for range w.rounds {
		speedsA = append(speedsA, maskSpeed(setA, log.Bytes()))
		speedsB = append(speedsB, maskSpeed(setB, log.Bytes()))
	}
	return speedsA, speedsB
}

func secrets(count int) *mask.Set {
	set := mask.NewSet()
	for i := range count {
		set.Add(fmt.Sprintf("glpat-%08x-secret-%d", i*2654435761, i))
	}
	return set
}

func maskSpeed(set *mask.Set, log []byte) float64 {
	out := set.NewWriter(func([]byte) {})
	start := processorTime()
	for rest := log; len(rest) > 0; {
		n := min(len(rest), 32<<10)
		_, _ = out.Write(rest[:n])
		rest = rest[n:]
	}
	out.Flush()
	return float64(len(log)) / 1e6 / (processorTime() - start).Seconds()
}

// processorTime is that of this process.
func processorTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // never fails
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
