package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"testing"
)

// asKilled makes this test's program the one that is killed.
const asKilled = "RUNG_TEST_BENCH_KILLED"

func TestWhatABenchHasStartedEndsWithIt(t *testing.T) {
	if os.Getenv(asKilled) != "" {
		cmd := exec.Command("sh", "-c", `trap 'kill $!; echo asked; exit' TERM; sleep 60 >/dev/null & echo ready; wait; echo over`)
		cmd.Stdout = os.Stdout
		if err := startWithin(cmd); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bench := exec.Command(self, "-test.run", "^"+t.Name()+"$")
	bench.Env = append(os.Environ(), asKilled+"=1")
	out, err := bench.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := bench.Start(); err != nil {
		t.Fatal(err)
	}
	read := bufio.NewReader(out)
	if line, err := read.ReadString('\n'); err != nil || line != "ready\n" {
		t.Errorf("it says %q, %v", line, err)
	}
	if err := bench.Process.Kill(); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(read); err != nil || string(rest) != "asked\n" { // when what it has started ends
		t.Errorf("what it has started says %q, %v", rest, err)
	}
	_ = bench.Wait()
}
