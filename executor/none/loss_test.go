//go:build unix

package none

import (
	"testing"

	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/ssh"
)

func TestTheLossOfAHostEndsItsJobs(t *testing.T) {
	for way, lose := range hosttest.Losses {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := hosttest.StartSSHD(t)
			open := func() executortest.Level {
				h, err := ssh.New(t.Context(), ssh.Options{
					Address: s.Address, Key: s.Key, KnownHosts: []string{s.KnownHosts}, Config: []string{},
					Program: func(host.Platform) (string, error) { return executortest.Program() },
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
