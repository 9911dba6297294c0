package workflow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// cronField is one of the five fields of a cron line.
type cronField struct {
	name     string
	min, max int
	words    []string // names for the numbers from min on
}

var (
	months   = []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	weekdays = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
)

// checkCron checks a cron line as GitHub reads it: five fields of POSIX, and no @daily.
func checkCron(text string) error {
	fields := []cronField{{"minute", 0, 59, nil}, {"hour", 0, 23, nil}, {"day of the month", 1, 31, nil}, {"month", 1, 12, months}, {"day of the week", 0, 6, weekdays}}
	parts := strings.Fields(text)
	if strings.HasPrefix(text, "@") {
		return fmt.Errorf("GitHub does not support %s; write five fields, such as 0 0 * * *", shorten(text))
	}
	if len(parts) != len(fields) {
		return fmt.Errorf("a cron line has five fields (minute, hour, day of the month, month, day of the week), not %d", len(parts))
	}
	for i, f := range fields {
		for item := range strings.SplitSeq(parts[i], ",") {
			if err := f.check(item); err != nil {
				return err
			}
		}
	}
	return nil
}

// check checks one item of a field: *, 5, 1-5, */15, 2-10/2.
func (f cronField) check(item string) error {
	span, step, stepped := strings.Cut(item, "/")
	if n, err := strconv.Atoi(step); stepped && (err != nil || n < 1 || n > f.max+1) {
		return fmt.Errorf("%q is not a valid step for the %s", shorten(step), f.name)
	}
	if span == "*" {
		return nil
	}
	from, to, ranged := strings.Cut(span, "-")
	first, err := f.number(from)
	if err != nil || !ranged {
		return err
	}
	last, err := f.number(to)
	if err == nil && last < first {
		err = fmt.Errorf("the range %s of the %s ends before it begins", shorten(span), f.name)
	}
	return err
}

func (f cronField) number(text string) (int, error) {
	if i := slices.Index(f.words, strings.ToUpper(text)); i >= 0 {
		return f.min + i, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > f.max {
		return 0, fmt.Errorf("%q is not a valid %s, which must be from %d to %d", shorten(text), f.name, f.min, f.max)
	}
	return n, nil
}
