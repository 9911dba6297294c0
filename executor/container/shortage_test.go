package container_test

import (
	"testing"

	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/steps/event"
)

func TestAFullDiskInAContainerIsNamed(t *testing.T) {
	enginetest.Busybox(t)
	env, _ := open(t, options(t.TempDir()), job("full"))
	executortest.RunFullDisk(t, env, "/dev/shm") // 64 MiB, if nothing else is said
}

func TestAStepThatRunsOutOfMemoryIsNamed(t *testing.T) {
	enginetest.Busybox(t)
	j := job("memory")
	j.Resources.Memory = 96 << 20
	env, _ := open(t, options(t.TempDir()), j)
	// tail keeps what has no line end in memory.
	err := executortest.Failure(t, env, env.Layout().Project, "head -c 1000000000 /dev/zero | tail -n 1 >out; exit 3")
	if err.Code != event.CodeOutOfMemory || err.Step == "" || err.Hint == "" {
		t.Errorf("the error is %+v", err)
	}
}
