//go:build linux

package local_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/grouptest"
	"github.com/rungci/rung/fleet/group/local"
	"github.com/rungci/rung/fleet/group/local/machine"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "host" { // the program for the files of a machine
		hosttest.Main(m)
	}
	if err := local.EndWithTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	executortest.RemoveProgram()
	if aloneDir != "" {
		_ = os.RemoveAll(aloneDir)
	}
	os.Exit(code)
}

// possible skips a test where there can be no machines.
func possible(t *testing.T) {
	t.Helper()
	if err := machine.Possible(); err != nil {
		enginetest.Skip(t, "namespaces without root: "+err.Error())
	}
}

func TestMachinesOfThisHostAreAnInstanceGroup(t *testing.T) {
	possible(t)
	for name, o := range map[string]local.Options{
		"alone":  {MaxSize: 3, Network: local.NetworkNone},
		"shapes": {MaxSize: 3, Network: local.NetworkHost, Shapes: map[string]local.Shape{"small": {CPUs: 0.5, Memory: 512 << 20}, "large": {CPUs: 2, Memory: 1 << 30}}},
	} {
		t.Run(name, func(t *testing.T) {
			grouptest.Run(t, grouptest.Subject{Open: func(t *testing.T) group.Basic {
				g, err := local.New(o)
				if err != nil {
					t.Fatal(err)
				}
				return g
			}})
		})
	}
}
