package engine

import (
	"github.com/rungci/rung/internal/scarcity"
	"github.com/rungci/rung/steps/event"
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
		return hinted(event.NewError(event.CodeOutOfMemory, "%s; it ran out of memory, and the kernel killed a process%s", err.Message, scarcity.MemoryUsed()), event.HintMemory)
	}
	if dir := scarcity.FullDisk(dirs...); dir != "" {
		return hinted(event.NewError(event.CodeDiskFull, "%s; the disk of %s is full", err.Message, dir), event.HintDisk)
	}
	return err
}
