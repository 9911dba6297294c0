package disk

import (
	"testing"

	"github.com/rungci/rung/executor"
)

func TestOthersKeepUnderOtherNames(t *testing.T) {
	most := Owner{Runner: "https://gitlab.example.com abcdefgh s_0123456789ab", Project: 1 << 62, ProjectSlot: 999, Protected: true, User: "builder"}
	seen := map[string]bool{}
	for _, o := range []Owner{most, {Runner: "other"}, {Project: 1}, {ProjectSlot: 1}, {Protected: true}, {User: "builder"}, {}} {
		name := o.Name()
		if seen[name] {
			t.Errorf("%+v has the name of another: %s", o, name)
		}
		seen[name] = true
		job := executor.Job{ID: "j", ProjectName: "p", KeepProject: name, KeepVolumes: name}
		if err := job.Validate(); err != nil {
			t.Error(err)
		}
	}
}
