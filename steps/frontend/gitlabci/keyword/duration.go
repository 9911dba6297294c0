package keyword

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Never is the text for artifacts and environments that do not expire. ParseDuration does not know it.
const Never = "never"

// MaxDurationText is how long the text of a duration may be, in bytes.
const MaxDurationText = 1024

// The longer units as GitLab counts them: a month has 30 days, and a year 365 and a quarter.
const (
	day   = 24 * time.Hour
	week  = 7 * day
	month = 30 * day
	year  = 8766 * time.Hour
)

// ParseDuration reads a duration as GitLab does: numbers with units ("1h 30m", "3 hrs 20 mins", "2 weeks and 3 days", "1.5 days"),
// numbers as words ("one hour", "twenty-five minutes"), clocks ("1:30:00"), and a number alone, which is in seconds. A unit without a
// number is one of it. A duration of nothing is an error.
func ParseDuration(text string) (time.Duration, error) {
	if len(text) > MaxDurationText {
		return 0, fmt.Errorf("the text is longer than %d bytes, which is the limit", MaxDurationText)
	}
	words, err := durationWords(strings.ToLower(text))
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for i := 0; i < len(words); i++ {
		w := words[i]
		if !w.number { // the first one, or one behind another unit
			if i == 0 {
				sum += w.unit.Seconds()
			}
			continue
		}
		switch {
		case i+1 == len(words):
			sum += w.value // seconds
		case !words[i+1].number:
			sum += w.value * words[i+1].unit.Seconds()
		default:
			return 0, fmt.Errorf("the number %s in %q has no unit", strconv.FormatFloat(w.value, 'f', -1, 64), text)
		}
	}
	switch {
	case len(words) == 0 || sum == 0:
		return 0, fmt.Errorf("%q is not a duration", shorten(text))
	case sum >= math.MaxInt64/float64(time.Second):
		return 0, fmt.Errorf("%q is too long", shorten(text))
	}
	return time.Duration(math.Round(sum * float64(time.Second))), nil
}

// durationWord is a number or a unit.
type durationWord struct {
	number bool
	value  float64
	unit   time.Duration
}

// durationWords splits a text at spaces, commas, and between numbers and letters.
func durationWords(text string) ([]durationWord, error) {
	if strings.Contains(text, ":") {
		return clock(text)
	}
	var words []durationWord
	spoken := spokenNumber{}
	rest := text
	for {
		rest = strings.TrimLeft(rest, " \t\r\n,")
		if rest == "" {
			break
		}
		if n := numberLength(rest); n > 0 {
			words = spoken.end(words)
			value, err := strconv.ParseFloat(rest[:n], 64)
			if err != nil {
				return nil, fmt.Errorf("%q is too long", shorten(text))
			}
			words, rest = append(words, durationWord{number: true, value: value}), rest[n:]
			continue
		}
		n := strings.IndexAny(rest, " \t\r\n,0123456789.")
		switch n {
		case 0:
			return nil, fmt.Errorf("%q is not a duration", shorten(text))
		case -1:
			n = len(rest)
		}
		word := rest[:n]
		rest = rest[n:]
		if spoken.add(word) {
			continue
		}
		words = spoken.end(words)
		if unit, ok := unitOf(word); ok {
			words = append(words, durationWord{unit: unit})
		} else if word != "and" && word != "with" && word != "plus" {
			return nil, fmt.Errorf("%q is not a unit of time", shorten(word))
		}
	}
	return spoken.end(words), nil
}

// numberLength is how long the number is that a text begins with, 0 when it begins with none.
func numberLength(text string) int {
	digits := func(i int) int {
		for i < len(text) && '0' <= text[i] && text[i] <= '9' {
			i++
		}
		return i
	}
	n := digits(0)
	if n < len(text) && text[n] == '.' {
		if m := digits(n + 1); m > n+1 {
			return m
		}
	}
	return n
}

// clock reads 4:30 and 1:02:30:00: seconds last, then minutes, hours, days, months and years before them.
func clock(text string) ([]durationWord, error) {
	units := []time.Duration{time.Second, time.Minute, time.Hour, day, month, year}
	parts := strings.Split(strings.ReplaceAll(text, " ", ""), ":")
	if len(parts) > len(units) {
		return nil, errors.New("a clock has at most six parts")
	}
	var words []durationWord
	for i, part := range parts {
		if part == "" || numberLength(part) != len(part) {
			return nil, fmt.Errorf("%q is not a duration", shorten(text))
		}
		value, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is too long", shorten(text))
		}
		words = append(words, durationWord{number: true, value: value}, durationWord{unit: units[len(parts)-1-i]})
	}
	return words, nil
}

func unitOf(word string) (time.Duration, bool) {
	switch word {
	case "seconds", "second", "secs", "sec", "s":
		return time.Second, true
	case "minutes", "minute", "mins", "min", "m":
		return time.Minute, true
	case "hours", "hour", "hrs", "hr", "h":
		return time.Hour, true
	case "days", "day", "dy", "d":
		return day, true
	case "weeks", "week", "wks", "wk", "w":
		return week, true
	case "months", "month", "mos", "mo":
		return month, true
	case "years", "year", "yrs", "yr", "y":
		return year, true
	}
	return 0, false
}

// mostSpoken bounds a number in words, which may repeat "hundred".
const mostSpoken = 1_000_000

// spokenNumber collects the words of one number: "two hundred twenty-five".
type spokenNumber struct {
	begun     bool
	thousands int
	value     int
}

// add takes a word, and reports whether it is one of a number.
func (s *spokenNumber) add(word string) bool {
	sum := 0
	for part := range strings.SplitSeq(word, "-") {
		n, ok := spoken(part)
		switch {
		case !ok:
			return false
		case n < 100:
			sum += n
		case strings.Contains(word, "-"):
			return false
		case n == 100:
			s.begun, s.value = true, min(max(s.value, 1)*100, mostSpoken)
			return true
		default:
			s.begun, s.thousands, s.value = true, min(max(s.value, 1)*1000, mostSpoken), 0
			return true
		}
	}
	s.begun, s.value = true, min(s.value+sum, mostSpoken)
	return true
}

// end appends the number, if there is one.
func (s *spokenNumber) end(words []durationWord) []durationWord {
	if s.begun {
		words = append(words, durationWord{number: true, value: float64(s.thousands + s.value)})
	}
	*s = spokenNumber{}
	return words
}

func spoken(word string) (int, bool) {
	small := [...]string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
		"thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"}
	for i, name := range small {
		if name == word {
			return i, true
		}
	}
	tens := [...]string{"twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"}
	for i, name := range tens {
		if name == word {
			return 20 + 10*i, true
		}
	}
	switch word {
	case "hundred":
		return 100, true
	case "thousand":
		return 1000, true
	}
	return 0, false
}
