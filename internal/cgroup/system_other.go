//go:build !linux

package cgroup

import (
	"errors"
	"os"
)

func delegated(string) bool { return false }

func isBusy(error) bool { return false }

func isRemoved(error) bool { return false }

func isGone(error) bool { return false }

func removeGroup(dir string) error { return os.Remove(dir) }

// Disk is that of a folder.
func Disk(string) (string, error) { return "", errors.New("only Linux tells disks apart") }
