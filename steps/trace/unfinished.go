package trace

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/rungci/rung/internal/lockedfile"
)

// EventsSuffix is what the name of the event log of a run that is not finished has beyond the trace's own name. Where several runs write one
// trace at the same time, those that began later have a number before it, from 2 on.
const EventsSuffix = ".events"

const (
	// maxRuns is how many runs can write one trace at the same time.
	maxRuns = 16
	// maxClaims is how often an event log is tried to be made while other runs begin and end.
	maxClaims = 100
)

// eventsFile is the event log of one of the runs that write a trace at the same time; they are numbered from 1.
func eventsFile(path string, number int) string {
	if number > 1 {
		path += "." + strconv.Itoa(number)
	}
	return path + EventsSuffix
}

// Files returns the names of all files that a trace may have, while runs write it and later.
func Files(path string) []string {
	out := []string{path, path + LogSuffix}
	for n := 1; n <= maxRuns; n++ {
		out = append(out, eventsFile(path, n), eventsFile(path, n)+LogSuffix)
	}
	return out
}

// unfinishedEvents returns the first event log of a trace that is not empty; "" if there is none.
func unfinishedEvents(path string) (string, os.FileInfo) {
	for n := 1; n <= maxRuns; n++ {
		name := eventsFile(path, n)
		if info, err := os.Lstat(name); err == nil && (!info.Mode().IsRegular() || info.Size() > 0) { // an empty one has not begun
			return name, info
		}
	}
	return "", nil
}

// claimEvents creates the event log of a run, which stays locked until it is closed, and removes what runs that were killed have left.
func claimEvents(path string) (file *os.File, events string, err error) {
	for n := 1; n <= maxRuns; n++ {
		name := eventsFile(path, n)
		if _, err := os.Lstat(name); file != nil && err != nil {
			continue
		}
		claimed, err := claim(name)
		switch {
		case file != nil && err == nil: // what was there
			_ = lockedfile.CloseRemoved(claimed, name)
		case file != nil, errors.Is(err, lockedfile.ErrInUse):
		case err != nil:
			return nil, "", err
		default:
			file, events = claimed, name
		}
	}
	if file == nil {
		return nil, "", fmt.Errorf("%d runs are writing it; wait until one of them ends", maxRuns)
	}
	return file, events, nil
}

// claim creates one of the event logs, without the log that an earlier run may have left beside it. The error is lockedfile.ErrInUse if
// another run has it.
func claim(name string) (*os.File, error) {
	for range maxClaims {
		if err := lockedfile.Discard(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// Whoever found it before it was locked took it for one that a killed run has left.
		if errors.Is(lockedfile.Lock(file), lockedfile.ErrInUse) || !lockedfile.Has(file, name) {
			file.Close()
			continue
		}
		if err := lockedfile.Discard(name + LogSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			_ = lockedfile.CloseRemoved(file, name)
			return nil, err
		}
		return file, nil
	}
	return nil, lockedfile.ErrInUse
}

// adoptEvents creates the first event log in place of that of a run whose process is gone, and leaves the log beside it.
func adoptEvents(path string) (*os.File, string, error) {
	name := eventsFile(path, 1)
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, "", err
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_ = lockedfile.Lock(file)
	}
	return file, name, err
}
