//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	stepsv0 "github.com/rungci/rung/api/gitlab/steps/v0"
)

// peerFigures drive our server and that of the existing step-runner, whose binary -peer names, with the same client: that of the
// existing one's API.
var peerFigures = []figure{
	{
		name: "gRPC v0.11: 500 runs, to the existing server", unit: "x ", target: 1.1,
		measure: besides(func(c stepsv0.StepRunnerClient, dir, turn string) (time.Duration, error) {
			const runs, turns = 500, 5
			start := time.Now()
			for i := range runs / turns {
				if _, err := peerRun(c, dir, fmt.Sprint(turn, "-", i), "noop", io.Discard); err != nil {
					return 0, err
				}
			}
			return time.Since(start), nil
		}),
	},
	{
		name: "gRPC v0.11: 20 MB of log, to the existing server", unit: "x ", target: 1,
		measure: besides(func(c stepsv0.StepRunnerClient, dir, turn string) (time.Duration, error) {
			start := time.Now()
			_, err := peerRun(c, dir, turn, "loud", io.Discard)
			return time.Since(start), err
		}),
	},
}

// peerSteps are components that both programs read.
var peerSteps = map[string]string{
	"noop": "spec: {}\n---\nexec: {command: [/bin/true]}\n",
	"loud": "spec: {}\n---\nexec: {command: [sh, -c, \"yes 'a line of a log' | head -c 20000000\"]}\n",
}

// besides returns the median of how long work takes on our server to how long it takes on the other, in turn.
func besides(work func(c stepsv0.StepRunnerClient, dir, turn string) (time.Duration, error)) func(*world) (float64, string, error) {
	return func(w *world) (float64, string, error) {
		for name, text := range peerSteps {
			dir := filepath.Join(w.dir, name)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return 0, "", err
			}
			if err := os.WriteFile(filepath.Join(dir, "step.yml"), []byte(text), 0o644); err != nil {
				return 0, "", err
			}
		}
		ours, stop, err := w.serveV0(w.runner)
		if err != nil {
			return 0, "", err
		}
		defer stop()
		theirs, stop, err := w.serveV0(w.peer)
		if err != nil {
			return 0, "", fmt.Errorf("the existing step-runner: %w", err)
		}
		defer stop()
		var ratios []float64
		var a, b time.Duration
		for round := range max(3, w.rounds/2) {
			if a, err = work(ours, w.dir, fmt.Sprint("ours-", round)); err != nil {
				return 0, "", err
			}
			if b, err = work(theirs, w.dir, fmt.Sprint("theirs-", round)); err != nil {
				return 0, "", fmt.Errorf("the existing step-runner: %w", err)
			}
			ratios = append(ratios, float64(a)/float64(b))
		}
		return median(ratios), fmt.Sprintf("%s, theirs %s", ms(a), ms(b)), nil
	}
}

// serveV0 starts a server, ours or the existing one, and returns a client of the existing one's API.
func (w *world) serveV0(program string) (c stepsv0.StepRunnerClient, stop func(), err error) {
	dir, err := os.MkdirTemp(w.dir, "v0-")
	if err != nil {
		return nil, nil, err
	}
	server := exec.Command(program, "serve", dir)
	server.Dir = w.dir
	if err := server.Start(); err != nil {
		return nil, nil, err
	}
	end := func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
	}
	conn, err := grpc.NewClient("unix:"+filepath.Join(dir, "step-runner.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		end()
		return nil, nil, err
	}
	c = stepsv0.NewStepRunnerClient(conn)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := c.Status(ctx, &stepsv0.StatusRequest{}, grpc.WaitForReady(true)); err != nil {
		end()
		return nil, nil, err
	}
	return c, func() { _ = conn.Close(); end() }, nil
}

// peerRun runs one component to its end: started, followed, asked for and closed.
func peerRun(c stepsv0.StepRunnerClient, dir, id, step string, log io.Writer) (int64, error) {
	ctx := context.Background()
	_, err := c.Run(ctx, &stepsv0.RunRequest{Id: id, WorkDir: dir, Job: &stepsv0.Job{BuildDir: dir}, Steps: "{}\n---\nrun: [{name: a, step: ./" + step + "}]\n"})
	if err != nil {
		return 0, err
	}
	stream, err := c.FollowLogs(ctx, &stepsv0.FollowLogsRequest{Id: id})
	if err != nil {
		return 0, err
	}
	var size int64
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		size += int64(len(piece.GetData()))
		if _, err := log.Write(piece.GetData()); err != nil {
			return 0, err
		}
	}
	status, err := c.Status(ctx, &stepsv0.StatusRequest{Id: id})
	if err != nil {
		return 0, err
	}
	if jobs := status.GetJobs(); len(jobs) != 1 || jobs[0].GetStatus() != stepsv0.StepResult_success {
		return 0, fmt.Errorf("the run %s ended as %v", id, jobs)
	}
	_, err = c.Close(ctx, &stepsv0.CloseRequest{Id: id})
	return size, err
}
