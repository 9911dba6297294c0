//go:build !linux

package hosttest

import "testing"

// SmallDisk skips the test: only on Linux it makes a disk.
func SmallDisk(t testing.TB) string {
	t.Helper()
	t.Skip("needs Linux to mount a small disk")
	return ""
}
