// Package schedule says when something applies: periods of cron in a time zone, and which of several policies counts.
package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/gorhill/cronexpr"
)

// Periods is a set of times: each that matches one of some expressions of cron, on the clock on the wall of a time zone. So 02:30 is in a period once
// on most days, twice when clocks go back, and not at all when they go forward. The zero value holds no time. It is safe for concurrent use.
type Periods struct {
	zone        *time.Location
	expressions []cronexpr.Expression
}

// Numbers of fields that an expression can have.
const (
	withoutYear    = 5
	withoutSeconds = 6
	allFields      = 7
)

// Zone finds a time zone by its name; empty is that of this machine.
func Zone(name string) (*time.Location, error) {
	if name == "" {
		name = "Local"
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("there is no time zone %q on this machine", name)
	}
	return zone, nil
}

// Parse reads expressions of cron with 5 fields (minute to day of the week), 6 (a year after them) or 7 (a second before them). The days of the week
// and months have names, too; 0 and 7 are Sunday. If the day of the month and the day of the week are both limited, either is enough, as in cron. A
// range whose end is before its beginning goes on over the end of the hour, day, month, week or year: 22-6 are the hours from 22 to 6. Each field is about the
// time alone, so the hours from 0 to 6 of "* 22-6 * * fri" are those of Friday, and not the ones after its night.
func Parse(timezone string, expressions ...string) (Periods, error) {
	zone, err := Zone(timezone)
	if err != nil {
		return Periods{}, err
	}
	p := Periods{zone: zone}
	for _, text := range expressions {
		expression, err := parse(text)
		if err != nil {
			return Periods{}, err
		}
		p.expressions = append(p.expressions, *expression)
	}
	return p, nil
}

// parse reads an expression. Without seconds it stands for whole minutes.
func parse(text string) (*cronexpr.Expression, error) {
	fields := strings.Fields(text)
	if len(fields) < withoutYear || len(fields) > allFields {
		return nil, fmt.Errorf("%q has %s, and an expression of cron has 5 to 7", text, numbered(len(fields), "field"))
	}
	if len(fields) <= withoutSeconds {
		fields = append([]string{"*"}, fields...)
	}
	if len(fields) < allFields {
		fields = append(fields, "*")
	}
	for i, of := range fieldsOf {
		written, err := of.spell(fields[i])
		if err != nil {
			return nil, fmt.Errorf("%q is not an expression of cron: %w", text, err)
		}
		fields[i] = written
	}
	expression, err := cronexpr.Parse(strings.Join(fields, " "))
	if err != nil {
		return nil, fmt.Errorf("%q is not an expression of cron: %w", text, err)
	}
	return expression, nil
}

// numbered is a number of things.
func numbered(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Never reports whether an expression holds at no time, such as the 31st of February. It is false of what is not an expression.
func Never(expression string) bool {
	e, err := parse(expression)
	return err == nil && e.Next(time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC)).IsZero() // the library's years begin after it
}

// Contains reports whether a time is in one of the periods.
func (p Periods) Contains(t time.Time) bool {
	if p.zone == nil {
		return false
	}
	t = t.In(p.zone)
	// An expression is about what a clock shows. Asked in UTC, where every minute exists once, the library has no hour to skip or to repeat.
	shown := time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
	for _, expression := range p.expressions { // a copy: Next keeps notes in it
		if expression.Next(shown.Add(-time.Second)).Equal(shown) {
			return true
		}
	}
	return false
}
