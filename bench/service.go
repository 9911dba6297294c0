//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/service/client"
	"github.com/rungci/rung/steps/source"
)

// serviceFigures are of the gRPC service, of a server in a process of its own on a unix socket.
var serviceFigures = []figure{
	{
		name: "gRPC: 500 one-step runs, to the same in process", unit: "x ", target: 2,
		measure: func(w *world) (float64, string, error) {
			const runs, turns = 500, 5
			c, stop, err := w.serve()
			if err != nil {
				return 0, "", err
			}
			defer stop()
			var ratios []float64
			var remote, local time.Duration
			for round := range max(1, w.rounds/3) {
				var mine, theirs time.Duration
				for turn := range turns {
					a, err := remoteRuns(c, fmt.Sprint(round, "-", turn), runs/turns)
					if err != nil {
						return 0, "", err
					}
					b, err := w.localRuns(runs / turns)
					if err != nil {
						return 0, "", err
					}
					mine, theirs = mine+a, theirs+b
				}
				ratios = append(ratios, float64(mine)/float64(theirs))
				remote, local = mine/runs, theirs/runs
			}
			return median(ratios), fmt.Sprintf("a run in %s, in process %s", ms(remote), ms(local)), nil
		},
	},
	{
		name: "gRPC: FollowLogs on a unix socket", unit: "MB/s", target: 150, more: true,
		measure: func(w *world) (float64, string, error) {
			c, stop, err := w.serve()
			if err != nil {
				return 0, "", err
			}
			defer stop()
			const size = 400 << 20
			ctx := context.Background()
			start := time.Now()
			steps := fmt.Sprintf("- exec: {command: [sh, -c, 'yes %s | head -c %d']}", strings.Repeat("a line of a log ", 5), size)
			if err := c.Run(ctx, client.Request{ID: "log", WorkDir: w.dir, Text: steps}); err != nil {
				return 0, "", err
			}
			if n, err := c.FollowLogs(ctx, "log", io.Discard, client.LogOptions{}); err != nil || n != size {
				return 0, "", fmt.Errorf("followed %d bytes: %w", n, err)
			}
			live := megabytes(size, time.Since(start))
			var speeds []float64
			for range w.rounds {
				start := time.Now()
				if _, err := c.FollowLogs(ctx, "log", io.Discard, client.LogOptions{}); err != nil {
					return 0, "", err
				}
				speeds = append(speeds, megabytes(size, time.Since(start)))
			}
			return median(speeds), fmt.Sprintf("of an existing log; while a step writes it %.0f MB/s, masked", live), c.Close(ctx, "log")
		},
	},
}

func megabytes(size int64, took time.Duration) float64 { return float64(size) / 1e6 / took.Seconds() }

// serve starts a server and returns a client of it.
func (w *world) serve() (c *client.Client, stop func(), err error) {
	socket := filepath.Join(w.dir, "s")
	server := exec.Command(w.runner, "serve", "--socket", socket)
	server.Dir = w.dir
	if err := startWithin(server); err != nil {
		return nil, nil, err
	}
	end := func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
	}
	if c, err = client.Dial("unix:" + socket); err != nil {
		end()
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := c.List(ctx); err != nil { // waits for the server
		end()
		return nil, nil, err
	}
	return c, func() { _ = c.Disconnect(); end() }, nil
}

// oneStep is a list of one step, as fast as any.
const oneStep = "- exec: {command: [/bin/true]}"

// remoteRuns times runs over one connection, one after another: each is started, followed, asked for and closed.
func remoteRuns(c *client.Client, turn string, count int) (time.Duration, error) {
	start := time.Now()
	for i := range count {
		if _, err := c.Execute(context.Background(), client.Request{ID: fmt.Sprint(turn, "-", i), Text: oneStep}, io.Discard); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// localRuns times the same in this process.
func (w *world) localRuns(count int) (time.Duration, error) {
	start := time.Now()
	for range count {
		component, err := gitlabsteps.ParseSteps("steps", []byte(oneStep))
		if err != nil {
			return 0, err
		}
		result := engine.Run(context.Background(), engine.Options{
			Component: component, Text: []byte(oneStep), Dir: w.dir, WorkDir: w.dir, HostEnv: os.Environ(),
			Source: &source.Local{Parse: gitlabsteps.ParseFile}, Sink: nowhere{},
		})
		if result.Status != event.Success {
			return 0, fmt.Errorf("a run in this process: %v", result.Error)
		}
	}
	return time.Since(start), nil
}

// nowhere is a sink that keeps nothing.
type nowhere struct{}

func (nowhere) Event(event.Event) {}
