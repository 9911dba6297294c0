package main

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/steps/source/sourcetest"
)

// gitrepo commits a folder to the branch main of a bare repository, which it makes, and sets tags there: gitrepo REPOSITORY
// FOLDER [TAG…]. It needs no git. The commit is in $COMMIT.
func gitrepo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: gitrepo REPOSITORY FOLDER [TAG…]")
	}
	repo := &sourcetest.GitRepo{Dir: ts.MkAbs(args[0])}
	if _, err := os.Stat(repo.Dir); err != nil {
		repo, err = sourcetest.NewGitRepo(repo.Dir)
		ts.Check(err)
	}
	files := map[string]sourcetest.GitFile{}
	root := ts.MkAbs(args[1])
	ts.Check(filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files[filepath.ToSlash(rel)] = sourcetest.GitFile{Content: string(text)}
		return err
	}))
	commit, err := repo.Push("main", "from "+args[1], files)
	ts.Check(err)
	for _, tag := range args[2:] {
		ts.Check(repo.Set("refs/tags/"+tag, commit))
	}
	ts.Setenv("COMMIT", commit)
}
