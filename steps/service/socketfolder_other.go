//go:build !unix

package service

import "os"

// socketFolder is the folder for temporary files, which is a user's own.
func socketFolder() string { return os.TempDir() }

// MakeSocketFolder makes the folder of the default socket.
func MakeSocketFolder() error { return nil }

// CheckSocketFolder returns an error if others may enter the folder of the default socket.
func CheckSocketFolder() error { return nil }
