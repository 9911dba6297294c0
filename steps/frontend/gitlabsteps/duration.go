package gitlabsteps

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// units are the words for units of time that GitLab understands in phrases, up to weeks.
var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": day, "day": day, "days": day,
	"w": week, "wk": week, "wks": week, "week": week, "weeks": week,
}

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// parseDuration reads a duration as Go writes it ("1m30s"), a phrase ("1 hour 30 minutes", "1h, 30m and 5s"), or a bare
// number of seconds.
func parseDuration(text string) (time.Duration, bool) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, true
	}
	rest := strings.ToLower(strings.TrimSpace(text))
	var total float64
	for parts := 0; ; parts++ {
		rest = strings.TrimLeft(rest, " \t,")
		if parts > 0 {
			if after, ok := strings.CutPrefix(rest, "and "); ok {
				rest = strings.TrimLeft(after, " \t")
			}
		}
		if rest == "" {
			return toDuration(total), parts > 0
		}
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789."))]
		number, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			return 0, false
		}
		rest = strings.TrimLeft(rest[len(digits):], " \t")
		word := rest[:len(rest)-len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))]
		rest = rest[len(word):]
		if word == "" && rest == "" && parts == 0 {
			return toDuration(number * float64(time.Second)), true
		}
		size, ok := units[word]
		if !ok {
			return 0, false
		}
		total += number * float64(size)
	}
}

// toDuration keeps what does not fit at the longest duration, for the caller to refuse.
func toDuration(nanoseconds float64) time.Duration {
	if nanoseconds >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(nanoseconds)
}
