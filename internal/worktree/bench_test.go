package worktree_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rungci/rung/internal/worktree"
)

// BenchmarkCopy copies a repository of 50 files, which is to take less than 8 ms, and one of 5,000.
func BenchmarkCopy(b *testing.B) {
	for _, files := range []int{50, 5000} {
		b.Run(fmt.Sprint(files, " files"), func(b *testing.B) {
			repo := newRepo(b)
			for i := range files {
				repo.write(fmt.Sprintf("dir%d/sub/file%d.go", i%10, i), fmt.Sprintf("package p%d\n%04000d\n", i, i))
			}
			repo.commit("all")
			base := b.TempDir()
			for i := 0; b.Loop(); i++ {
				to := filepath.Join(base, fmt.Sprint(i))
				if _, err := worktree.Copy(b.Context(), repo.dir, to, worktree.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
