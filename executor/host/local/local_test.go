//go:build unix

package local_test

import (
	"testing"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/local"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

func TestThisMachineIsAHost(t *testing.T) {
	hosttest.Run(t, func(*testing.T) host.Host { return local.New() })
}

func BenchmarkHost(b *testing.B) { hosttest.Benchmark(b, local.New()) }
