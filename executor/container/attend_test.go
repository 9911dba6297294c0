package container_test

import (
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest/enginetest"
)

func TestAnOwnerConnectsToItsEnvironmentAlsoWhenNothingRuns(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	o := options(t.TempDir())
	o.Lease = executor.Lease{Away: 20 * time.Second}
	env, _ := open(t, o, job("idle"))
	events := enginetest.Client(t).Events(t.Context(), client.EventsListOptions{Filters: client.Filters{}.Add("container", env.Layout().Name)})
	for {
		select {
		case e := <-events.Messages:
			if action := string(e.Action); strings.HasPrefix(action, "exec_start") && strings.Contains(action, "proxy") {
				return
			}
		case err := <-events.Err:
			t.Fatal(err)
		case <-env.Done():
			t.Fatal(env.Err())
		}
	}
}
