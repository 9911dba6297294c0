//go:build !linux

package scarcity

func kills() int64 { return 0 }

func memoryUsed() string { return "" }
