package ui

import "github.com/clipperhouse/displaywidth"

// cells measures text as a terminal shows it: escape sequences take no room, wide characters two cells.
var cells = displaywidth.Options{ControlSequences: true}

func cellWidth(text string) int { return cells.String(text) }

// truncate cuts text to at most so many cells, tail included; escape sequences behind the cut are kept, so that colours end.
func truncate(text string, most int, tail string) string {
	return cells.TruncateString(text, most, tail)
}
