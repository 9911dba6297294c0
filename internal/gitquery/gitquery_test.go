package gitquery_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/internal/gitquery"
)

func TestFiltersAreOffWhateverTheirNames(t *testing.T) {
	t.Parallel()
	got := gitquery.WithoutFilters([]string{"core.bare", "filter.lfs.clean", "filter.lfs.process", "filter.a=b.c.clean", "filter.clean", ""})
	want := strings.Fields(`--config-env=filter.a=b.c.clean=RUNG_GIT_EMPTY --config-env=filter.a=b.c.smudge=RUNG_GIT_EMPTY
		--config-env=filter.a=b.c.process=RUNG_GIT_EMPTY --config-env=filter.a=b.c.required=RUNG_GIT_EMPTY
		-c filter.lfs.clean= -c filter.lfs.smudge= -c filter.lfs.process= -c filter.lfs.required=`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheEnvironmentOfTheUserChangesNothing(t *testing.T) {
	t.Parallel()
	got := gitquery.Environment([]string{"HOME=/h", "GIT_ALLOW_PROTOCOL=ext", "GIT_NO_LAZY_FETCH=0", "RUNG_GIT_EMPTY=x"})
	want := []string{"HOME=/h", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "RUNG_GIT_EMPTY="}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
