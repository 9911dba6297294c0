package fleet_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/fleet/group/options"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/fleet"
)

// undecided has volumes with some options, but not with its own.
type undecided struct{ *fake.Group }

// NoVolumes implements group.Volumeless.
func (undecided) NoVolumes() error { return options.At("only large ones have volumes", "size") }

func TestAFleetWhoseGroupHasNoVolumesIsRefusedIfItsJobsWantSome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		group       group.Basic
		wanted      bool
		other       group.Basic // that of pool "a"; nil: the same
		table, want string
	}{
		"it has some":              {group: fake.New(fake.Options{}), wanted: true},
		"another pool has some":    {group: undecided{fake.New(fake.Options{})}, wanted: true, other: fake.New(fake.Options{})},
		"nobody wants them":        {group: struct{ group.Basic }{fake.New(fake.Options{})}},
		"it never has":             {group: struct{ group.Basic }{fake.New(fake.Options{})}, wanted: true, table: config.FleetOptions, want: `"b" are wrong: at '/volume': it has no volumes: remove volume, or`},
		"it has not, as it is set": {group: undecided{fake.New(fake.Options{})}, wanted: true, table: config.PoolOptions(0), want: `"b" are wrong: at '/size': only large ones have volumes, and [runners.fleet] sets volume: `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := pools("a", "a", "b", "b")
			if c.other == nil {
				m = pools("b", "b")
			}
			if c.wanted {
				m.Fleet.Volume = config.PerProject
			}
			p, err := fleet.Open(t.Context(), fleet.Options{
				Name: "test", Machinery: m, Setup: provider.Setup{Owner: "test", State: t.TempDir()}, Log: slog.New(slog.DiscardHandler),
				Group: func(_ context.Context, name string, _ map[string]any) (group.Basic, error) {
					if name == "b" {
						return c.group, nil
					}
					return c.other, nil
				},
			})
			if err == nil {
				closed(t, p)
			}
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("opening it: %v, want %q", err, c.want)
			}
			var at *config.TableError
			if errors.As(err, &at); c.table != "" && (at == nil || at.Table != c.table) {
				t.Errorf("the error is about %+v, want %s", at, c.table)
			}
		})
	}
}
