//go:build unix

package container_test

import (
	"context"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/ssh"
)

func TestTheLossOfAHostEndsItsJobsInContainers(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	for way, lose := range hosttest.Losses {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := hosttest.StartSSHD(t)
			open := func() executortest.Level {
				h, err := ssh.New(t.Context(), ssh.Options{
					Address: s.Address, Key: s.Key, KnownHosts: []string{s.KnownHosts}, Config: []string{},
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = h.Close() })
				l := level()
				l.Host = h
				return l
			}
			executortest.RunLoss(t, executortest.Loss{Level: open(), Lose: func() { lose(s) }, Restore: func() executortest.Level {
				s.Return()
				return open()
			}})
		})
	}
}

func TestAnEngineThatIsKilledEndsItsJobs(t *testing.T) {
	t.Parallel()
	for way, stays := range map[string]bool{"and started again at once": false, "and does not come back": true} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			own := enginetest.StartOwn(t)
			enginetest.BusyboxIn(t, own.Client(t))
			l := level()
			l.Open = func(ctx context.Context, setup executor.Setup) (executor.Executor, error) {
				return container.New(ctx, setup, container.Options{Engine: &container.Engine{Host: own.Address, From: "a test"}})
			}
			l.Left = func(dir string) ([]string, error) { return leftIn(own.Address, dir) }
			executortest.RunLoss(t, executortest.Loss{Level: l, Lose: func() {
				own.Kill()
				if !stays {
					own.Start(t)
				}
			}, Restore: func() executortest.Level {
				if stays {
					own.Start(t)
				}
				return l
			}})
		})
	}
}
