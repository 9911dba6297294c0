package machine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/disk"
	"github.com/rungci/rung/manager/status"
)

func TestTheDisksOfOtherMachinesAreShownThoseWithoutRoomFirst(t *testing.T) {
	s := &status.Status{State: manager.State{Disks: map[string]*disk.Status{}}}
	for i := range shownDisks + 2 {
		s.Disks[fmt.Sprintf("builder-%02d", i)] = &disk.Status{Budget: 2 << 30, Used: map[string]int64{"image": 1 << 30}}
	}
	s.Disks["ssh://ci@full:22"] = &disk.Status{Waiting: "it is full"}
	var out strings.Builder
	if err := show(&out, "", s); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	for _, want := range []string{"\ndisk of builder-08: 1GiB of 2GiB used", "it is full\ndisk of builder-00", "\ndisks of 3 more machines: see --format json\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("without %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "builder-09") {
		t.Errorf("too many are named:\n%s", got)
	}
}
