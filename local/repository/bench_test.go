package repository_test

import (
	"os"
	"testing"

	"github.com/rungci/rung/local/repository"
)

// BenchmarkOpen is what every local command waits for first: less than 10 ms in a small repository.
func BenchmarkOpen(b *testing.B) {
	dir := newGit(b).dir
	b.ResetTimer()
	for b.Loop() {
		if _, err := repository.Open(b.Context(), dir, os.Environ()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFacts(b *testing.B) {
	r, err := repository.Open(b.Context(), newGit(b).dir, os.Environ())
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		if _, err := r.Facts(b.Context(), repository.Event{}); err != nil {
			b.Fatal(err)
		}
	}
}
