package custom

import (
	"context"
	"errors"
	"os"
	"os/exec"
)

// supported is why this system has no drivers.
var supported = errors.New("drivers of the custom executor do not run on Windows: Rung calls them on Unix systems only")

func ownGroup(*exec.Cmd)       {}
func terminateGroup(*exec.Cmd) {}
func killGroup(*exec.Cmd)      {}

func makePipe(string) error { return supported }

func openPipe(context.Context, string, <-chan struct{}) (*os.File, error) { return nil, supported }

func release(string, <-chan struct{}) {}

var errUnread = supported
