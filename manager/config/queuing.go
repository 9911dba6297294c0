package config

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/gorhill/cronexpr"
)

// Late reports whether a job has waited longer in GitLab's queue than the configuration accepts at this time. running is how many jobs of its project
// ran on instance runners, as GitLab says it: "3", "5+", "+Inf". Of several thresholds that apply at the time, the last one counts.
//
// Source: helpers/monitoring in gitlab-runner 19.4.
func (m Monitoring) Late(at time.Time, waited time.Duration, running string) bool {
	for i := len(m.JobQueuingDurations) - 1; i >= 0; i-- {
		d := &m.JobQueuingDurations[i]
		if in, err := within(d.Periods, d.Timezone, at); err != nil || !in {
			continue
		}
		if d.Threshold <= 0 || waited <= d.Threshold {
			return false
		}
		pattern, err := regexp.Compile(d.JobsRunningForProject)
		return err != nil || pattern.MatchString(running)
	}
	return false
}

// within reports whether a time is in one of some periods. A period is an expression of cron with 5 fields (minute to day of the week), 6 (a year
// after them) or 7 (a second before them); it lasts as long as the expression matches.
func within(periods []string, timezone string, at time.Time) (bool, error) {
	if timezone == "" {
		timezone = "Local"
	}
	zone, err := time.LoadLocation(timezone)
	if err != nil {
		return false, fmt.Errorf("there is no time zone %q on this machine", timezone)
	}
	at = at.In(zone).Truncate(time.Second)
	in := false
	for _, text := range periods {
		expression, err := period(text)
		if err != nil {
			return false, err
		}
		in = in || expression.Next(at.Add(-time.Second)).Equal(at)
	}
	return in, nil
}

// The numbers of fields that an expression can have.
const (
	withoutYear    = 5
	withoutSeconds = 6
	allFields      = 7
)

// period reads an expression. Without seconds it stands for whole minutes.
func period(text string) (*cronexpr.Expression, error) {
	fields := strings.Fields(text)
	if len(fields) < withoutYear || len(fields) > allFields {
		return nil, fmt.Errorf("%q has %d fields, and an expression of cron has 5 to 7", text, len(fields))
	}
	if len(fields) <= withoutSeconds {
		fields = append([]string{"*"}, fields...)
	}
	if len(fields) < allFields {
		fields = append(fields, "*")
	}
	expression, err := cronexpr.Parse(strings.Join(fields, " "))
	if err != nil {
		return nil, fmt.Errorf("%q is not an expression of cron: %w", text, err)
	}
	return expression, nil
}

// queuing checks the thresholds of an entry.
func (r *reader) queuing(e *Runner, path string) {
	for i, d := range e.Monitoring.JobQueuingDurations {
		at := fmt.Sprintf("%s.monitoring.job_queuing_durations[%d]", path, i)
		if _, err := within(nil, d.Timezone, time.Time{}); err != nil {
			r.found(problem, "config/value", at+".timezone", r.doc.vals, "write a name such as Europe/Berlin or UTC", "%v", err)
		}
		if _, err := within(d.Periods, "UTC", time.Time{}); err != nil {
			r.found(problem, "config/value", at+".periods", r.doc.vals, `write for example "* * 9-17 * * mon-fri *": second, minute, hour, day, month, weekday, year`, "%v", err)
		}
		if _, err := regexp.Compile(d.JobsRunningForProject); err != nil {
			r.found(problem, "config/value", at+".jobs_running_for_project", r.doc.vals, "", "%v", err)
		}
	}
}
