package repository_test

import "testing"

func TestCommitsSinceOne(t *testing.T) {
	g := newGit(t)
	first := g.git("rev-parse", "HEAD")
	g.commit("second\n\nmore")
	last := g.commit("third")
	got, err := g.open().Commits(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Title != "second" || got[0].Parent != first || got[1].SHA != last || got[1].Author != "Jane Doe <jane@example.com>" {
		t.Errorf("%+v", got)
	}
}
