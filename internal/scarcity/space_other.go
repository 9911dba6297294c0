//go:build !linux && !darwin && !freebsd

package scarcity

func isFull(string) bool { return false }

func free(string) (int64, bool) { return 0, false }
