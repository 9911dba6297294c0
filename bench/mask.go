//go:build unix

package main

import (
	"bytes"
	"fmt"
	"time"

	"github.com/rungci/rung/internal/mask"
)

// maskFigures are of the path that every byte of a log takes.
var maskFigures = []figure{
	{
		name: "masking a log, 100 secrets", unit: "MB/s", target: 200, more: true,
		measure: func(w *world) (float64, string, error) {
			with, without := maskSpeed(w, 100), maskSpeed(w, 0)
			return with, fmt.Sprintf("no secrets: %.0f MB/s", without), nil
		},
	},
	{
		name: "masking, 1,000 secrets to 100", unit: "x ", target: 0.8, more: true,
		measure: func(w *world) (float64, string, error) {
			few, many := maskSpeed(w, 100), maskSpeed(w, 1000)
			return many / few, fmt.Sprintf("%.0f MB/s against %.0f MB/s", many, few), nil
		},
	},
}

// maskSpeed returns how many megabytes of a log pass in a second.
func maskSpeed(w *world, secrets int) float64 {
	set := mask.NewSet()
	for i := range secrets {
		set.Add(fmt.Sprintf("glpat-%08x-secret-%d", i*2654435761, i))
	}
	var log bytes.Buffer
	for i := 0; log.Len() < 8<<20; i++ {
		fmt.Fprintf(&log, "2026-11-21T06:20:%02d.%03dZ compiling package number %d of the project, with flags -O2 -g\n", i%60, i%1000, i)
	}
	var speeds []float64
	for range w.rounds {
		out := set.NewWriter(func([]byte) {})
		start := time.Now()
		for rest := log.Bytes(); len(rest) > 0; {
			n := min(len(rest), 32<<10)
			_, _ = out.Write(rest[:n])
			rest = rest[n:]
		}
		out.Flush()
		speeds = append(speeds, float64(log.Len())/1e6/time.Since(start).Seconds())
	}
	return median(speeds)
}
