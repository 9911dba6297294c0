package gitlab

import (
	"testing"
	"time"

	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
)

func TestWhenArtifactsExpire(t *testing.T) {
	t.Parallel()
	finished := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		name, in string
		left     store.Manifest
		want     time.Time
	}{
		{"after the time that the job says", "2 days", store.Manifest{Archive: "a.zip"}, finished.AddDate(0, 0, 2)},
		{"also those that are reports only", "1 hour", store.Manifest{Reports: []store.Report{{Type: "junit"}}}, finished.Add(time.Hour)},
		{"never, where it says so", "never", store.Manifest{Archive: "a.zip"}, time.Time{}},
		{"never, where it says nothing", "", store.Manifest{Archive: "a.zip"}, time.Time{}},
		{"never, when there is nothing", "1 day", store.Manifest{}, time.Time{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			left := test.left
			left.Finished = finished
			j := &pipeline.Job{Keywords: &keyword.Job{Artifacts: &keyword.Artifacts{ExpireIn: test.in}}}
			if got := expiry(j, &left); !got.Equal(test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	if got := expiry(&pipeline.Job{Keywords: &keyword.Job{}}, &store.Manifest{Archive: "a.zip"}); !got.IsZero() {
		t.Errorf("a job without artifacts has some that expire: %v", got)
	}
}
