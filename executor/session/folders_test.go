package session

import (
	"path/filepath"
	"testing"

	"github.com/rungci/rung/executor"
)

func TestWhereAKeptJobIs(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "shop")
	for _, test := range []struct {
		name   string
		layout executor.Layout
		want   string
	}{
		{"on this machine it is a folder", executor.Layout{Project: folder, Shared: true}, "its folder is kept: " + folder},
		{"in a container its name is told, and how to look", executor.Layout{Project: "/builds/shop", Name: "rung-a"},
			"its container is kept, stopped: rung-a (docker cp rung-a:/builds/shop . copies its files; docker rm rung-a, docker volume rm rung-a remove it)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := WhereKept(test.layout); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
