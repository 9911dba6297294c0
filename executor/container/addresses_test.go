//go:build unix

package container_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest/enginetest"
)

func TestJobsHaveNetworksInAnEngineThatHasNoAddressesLeft(t *testing.T) {
	t.Parallel()
	own := enginetest.StartOwn(t)
	own.Stop()
	own.Start(t, "--default-address-pool", "base=10.213.76.0/27,size=27") // enough for one
	c := own.Client(t)
	enginetest.BusyboxIn(t, c)
	o := options(t.TempDir())
	o.Engine = &container.Engine{Host: own.Address, From: "a test"}
	t.Run("jobs at once", func(t *testing.T) {
		for i, policy := range []executor.NetworkPolicy{executor.NetworkDefault, executor.NetworkDefault, executor.NetworkNone} {
			j := job("crowded")
			j.Network = policy
			env, _ := open(t, o, j)
			if at := sh(t, env, "ip -4 -o address show eth0"); strings.Contains(at, "inet 198.18.") != (i > 0) {
				t.Errorf("job %d has the address %q", i, at)
			}
		}
	})
	for _, taken := range []string{"10.213.76.0/27", "198.18.0.0/17"} {
		made, err := c.NetworkCreate(t.Context(), "taken-"+taken[:2], client.NetworkCreateOptions{IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: netip.MustParsePrefix(taken)}}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // an engine that ends leaves the machine its bridges
			if _, err := c.NetworkRemove(context.Background(), made.ID, client.NetworkRemoveOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	_, err := prepare(t, o, job("full"))
	if err == nil || !strings.Contains(err.Error(), "raise default-address-pools in the engine's daemon.json, or let jobs share a network by network_mode") {
		t.Error(err)
	}
}
