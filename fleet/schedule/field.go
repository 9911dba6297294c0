package schedule

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// field is what the numbers of a field of an expression can be.
type field struct {
	name     string
	min, max int
	names    []string // of the numbers from min on, of which the first three letters are enough
	year     bool     // it has no end at which it begins again
}

var (
	months = []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}
	days   = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

	// fieldsOf are the fields of a complete expression.
	fieldsOf = [allFields]field{
		{name: "second", max: 59}, {name: "minute", max: 59}, {name: "hour", max: 23}, {name: "day of the month", min: 1, max: 31},
		{name: "month", min: 1, max: 12, names: months}, {name: "day of the week", max: 6, names: days}, {name: "year", min: 1970, max: 2099, year: true},
	}
)

// item is a number, a range or all, and perhaps a step.
var item = regexp.MustCompile(`^(?:\*|([0-9]+|[a-z]{3,})(?:-([0-9]+|[a-z]{3,}))?)(?:/([0-9]+))?$`)

// special is a day that another number has in each month: the last one, the working day next to the 15th, the last or the second Friday.
var special = regexp.MustCompile(`^(?:lw?|[0-9]{1,2}w|(?:[0-7]|(?:sun|mon|tue|wed|thu|fri|sat)[a-z]*)(?:l|#[1-5]))$`)

// spell writes a field with a number for each that it holds, so that the library has no range to read: one whose end is before its beginning is an
// empty list there, on which it panics. A field with * stays that, as only this is no limit of the days.
func (f *field) spell(text string) (string, error) {
	held := make([]bool, f.max+1)
	var all []string
	for _, part := range strings.Split(strings.ToLower(text), ",") {
		switch {
		case part == "":
		case part == "*" || part == "?":
			return "*", nil
		case special.MatchString(part):
			all = append(all, part)
		case !item.MatchString(part):
			return "", fmt.Errorf("the %s %q is not *, a number, or a range such as %d-%d", f.name, part, f.min, f.min+1)
		default:
			if err := f.hold(part, held); err != nil {
				return "", err
			}
		}
	}
	for n, holds := range held {
		if holds {
			all = append(all, strconv.Itoa(n))
		}
	}
	if len(all) == 0 {
		return "", fmt.Errorf("the %s %q is empty", f.name, text)
	}
	return strings.Join(all, ","), nil
}

// hold adds what an item holds.
func (f *field) hold(part string, held []bool) error {
	parts := item.FindStringSubmatch(part)
	first, last, size := f.min, f.max, f.max-f.min+1
	var err error
	if parts[1] != "" {
		if first, err = f.number(parts[1]); err != nil {
			return err
		}
	}
	switch {
	case parts[2] != "":
		if last, err = f.number(parts[2]); err != nil {
			return err
		}
	case parts[1] != "" && parts[3] == "":
		last = first
	}
	if f.week() && first == sunday {
		first, last = 0, last%sunday
	}
	if last < first && f.year {
		return fmt.Errorf("the range %q of years ends before it begins", part)
	}
	if last < first {
		last += size
	}
	step := 1
	if parts[3] != "" {
		if step, err = strconv.Atoi(parts[3]); err != nil || step < 1 || step > f.max {
			return fmt.Errorf("%q has a step that is not from 1 to %d", part, f.max)
		}
	}
	for n := first; n <= last; n += step {
		held[f.min+(n-f.min)%size] = true
	}
	return nil
}

// sunday is the other number of the day whose first is 0.
const sunday = 7

func (f *field) week() bool { return f.max == sunday-1 }

// number reads a number or a name.
func (f *field) number(text string) (int, error) {
	for i, name := range f.names {
		if text == name || text == name[:3] {
			return f.min + i, nil
		}
	}
	most := f.max
	if f.week() {
		most = sunday
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > most {
		return 0, fmt.Errorf("the %s %q is not from %d to %d", f.name, text, f.min, most)
	}
	return n, nil
}
