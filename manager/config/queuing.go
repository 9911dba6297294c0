package config

import (
	"fmt"
	"regexp"
	"time"

	"github.com/rungci/rung/fleet/schedule"
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

// within reports whether a time is in one of some periods.
func within(periods []string, timezone string, at time.Time) (bool, error) {
	of, err := schedule.Parse(timezone, periods...)
	return err == nil && of.Contains(at), err
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
		r.never(at+".periods", d.Periods)
		if _, err := regexp.Compile(d.JobsRunningForProject); err != nil {
			r.found(problem, "config/value", at+".jobs_running_for_project", r.doc.vals, "", "%v", err)
		}
	}
}
