package engine

import (
	"github.com/rungci/rung/internal/scarcity"
	"github.com/rungci/rung/steps/event"
)

// What to do about a shortage.
const (
	fullDiskHint  = "free space on it, or give the job a larger disk"
	fewMemoryHint = "give the job more memory, or let it do less at a time"
)

// shortage says of a command that failed what the machine had too little of: kills is how many processes the kernel has killed for want of
// memory meanwhile, and dirs are where the command writes. An error that has another reason stays as it is.
func shortage(err *event.Error, kills int64, dirs ...string) *event.Error {
	switch err.Code {
	case event.CodeExitStatus, event.CodeKilledBySignal, event.CodeOutputInvalid, event.CodeToolkitFailed:
	default:
		return err
	}
	if kills > 0 {
		return hinted(event.NewError(event.CodeOutOfMemory, "%s; it ran out of memory, and the kernel killed a process", err.Message), fewMemoryHint)
	}
	if dir := scarcity.FullDisk(dirs...); dir != "" {
		return hinted(event.NewError(event.CodeDiskFull, "%s; the disk of %s is full", err.Message, dir), fullDiskHint)
	}
	return err
}
