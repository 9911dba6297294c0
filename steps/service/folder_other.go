//go:build !unix

package service

import "os"

// lockFolder locks nothing: this system has no locks on folders, and what a killed server leaves is not removed.
func lockFolder(string) *os.File { return nil }

func isMine(os.FileInfo) bool { return false }
