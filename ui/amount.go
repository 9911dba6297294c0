package ui

import (
	"fmt"
	"time"

	"github.com/rungci/rung/steps/event"
)

// exact writes how long something took: "12ms", "1.2s", "2m5s", "1h2m".
func exact(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%dms", max(0, d.Milliseconds()))
	}
	if tenths := d.Round(100 * time.Millisecond); tenths < time.Minute {
		return fmt.Sprintf("%.1fs", tenths.Seconds())
	}
	return whole(d.Round(time.Second))
}

// whole writes how long something has been going on, in whole seconds: "30s", "2m", "2m5s", "1h2m".
func whole(d time.Duration) string {
	seconds := max(0, int64(d/time.Second))
	hours, minutes, seconds := seconds/3600, seconds/60%60, seconds%60
	switch {
	case hours > 0 && minutes > 0:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	case hours > 0:
		return fmt.Sprintf("%dh", hours)
	case minutes > 0 && seconds > 0:
		return fmt.Sprintf("%dm%ds", minutes, seconds)
	case minutes > 0:
		return fmt.Sprintf("%dm", minutes)
	}
	return fmt.Sprintf("%ds", seconds)
}

// amount writes how far a piece of work is: "45%  12.3 of 27.0 MB", "12.3 MB", "3 of 7 layers".
func amount(p event.Progress) string {
	unit := cleanText(p.Unit)
	number := func(n int64) string { return fmt.Sprint(n) }
	if p.Unit == "bytes" {
		scale, name := byteScale(max(p.Current, p.Total))
		unit = name
		number = func(n int64) string {
			if scale == 1 {
				return fmt.Sprint(n)
			}
			return fmt.Sprintf("%.1f", float64(n)/scale)
		}
	}
	if unit != "" {
		unit = " " + unit
	}
	if p.Total <= 0 {
		return number(p.Current) + unit
	}
	return fmt.Sprintf("%d%%  %s of %s%s", percent(p), number(p.Current), number(p.Total), unit)
}

// percent is 0 to 100; 0 when the total is not known.
func percent(p event.Progress) int {
	if p.Total <= 0 {
		return 0
	}
	return int(min(1, max(0, float64(p.Current)/float64(p.Total))) * 100)
}

func byteScale(n int64) (scale float64, name string) {
	switch {
	case n >= 1e9:
		return 1e9, "GB"
	case n >= 1e6:
		return 1e6, "MB"
	case n >= 1e3:
		return 1e3, "kB"
	}
	return 1, "bytes"
}

// plural writes a count with its noun: "1 step", "6 steps".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
