package git

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/source/sourcetest"
)

func TestTags(t *testing.T) {
	t.Parallel()
	repos := t.TempDir()
	r := newRepo(t, repos, "project")
	newRepo(t, repos, "empty")
	commit := r.push("main", files{"a.yml": "a"})
	r.set("refs/tags/1.0.0", commit)
	r.set("refs/tags/2.0.0", r.must(r.Annotate("2.0.0", "commit", commit)))
	want := map[string]string{"1.0.0": commit, "2.0.0": commit}

	t.Run("of a folder, annotated ones are their commits", func(t *testing.T) {
		t.Parallel()
		got, err := newFetcher(t).Tags(t.Context(), location("file://"+repos+"/project.git", ""))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	})
	t.Run("of a server, annotated ones are their commits", func(t *testing.T) {
		t.Parallel()
		s := serve(t, sourcetest.GitOptions{Repos: repos})
		got, err := newFetcher(t).Tags(t.Context(), location(s.URL+"/project.git", ""))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
		if got, err := newFetcher(t).Tags(t.Context(), location(s.URL+"/empty.git", "")); len(got) != 0 || err != nil {
			t.Errorf("of an empty repository: %v, %v", got, err)
		}
		if _, err := newFetcher(t).Tags(t.Context(), location(s.URL+"/none.git", "")); err == nil {
			t.Error("no error for a repository that is not there")
		}
	})
}
