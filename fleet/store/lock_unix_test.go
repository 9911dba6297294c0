//go:build unix

package store

import (
	"syscall"
	"testing"
)

// A process that was forked has a copy of every file, until it executes its program.
func TestAStoreThatIsClosedIsFreeAlthoughItsLockIsOpenElsewhere(t *testing.T) {
	folder := t.TempDir()
	s, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	other, err := syscall.Dup(int(s.(*file).lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(other) }()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(folder); err != nil {
		t.Fatal("the next cannot open it:", err)
	}
	_ = s.Close()
}
