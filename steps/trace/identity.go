package trace

import (
	"cmp"
	"strings"

	"github.com/rungci/rung/steps/event"
)

// Identity returns the job that was run, as far as the trace tells. The job variables of GitLab give it where the trace does not name
// it: in older traces, and in those of a step-runner that a GitLab job started.
func (t *Trace) Identity() event.Identity {
	if t.Run.Identity != nil {
		return *t.Run.Identity
	}
	job := t.Run.Job
	return event.Identity{
		Project: job["CI_PROJECT_PATH"], Ref: job["CI_COMMIT_REF_NAME"], Commit: job["CI_COMMIT_SHA"],
		Pipeline: cmp.Or(job["CI_PIPELINE_NAME"], job["CI_CONFIG_PATH"]), PipelineID: job["CI_PIPELINE_ID"],
		Job: job["CI_JOB_NAME"], Stage: job["CI_JOB_STAGE"],
	}
}

// Allowed reports whether the job failed and was allowed to, so that its pipeline goes on.
func (t *Trace) Allowed() bool {
	return t.Run.Status == event.Failure && t.Run.Identity.Allows(t.Run.ExitCode)
}

// allowedText is how the end of a job is called that failed and was allowed to.
const allowedText = "allowed to fail"

// ended says how the run ended: its status, or that it was allowed to fail.
func (t *Trace) ended() string {
	if t.Allowed() {
		return allowedText
	}
	return string(t.Run.Status)
}

// ignoredImage is the image that the job asks for and did not run in; "" if it ran as it asks.
func (t *Trace) ignoredImage() string {
	if t.Run.Environment == nil {
		return ""
	}
	return t.Run.Environment.IgnoredImage
}

// ignoredText says so.
func ignoredText(image string) string { return "the job ran without its image " + oneLine(image) }

// Title names the run in one line, for a heading: its job and project, or its ID.
func (t *Trace) Title() string {
	id := t.Identity()
	var parts []string
	for _, part := range []string{id.Job, id.Project, id.Ref} {
		if part != "" {
			parts = append(parts, oneLine(part))
		}
	}
	if len(parts) == 0 {
		return "run " + t.Run.ID
	}
	return strings.Join(parts, " · ")
}

// identityKnown reports whether the trace says which job was run.
func identityKnown(id event.Identity) bool { return id.Job != "" || id.Project != "" }

// identityText says in one line which job was run.
func identityText(id event.Identity) string {
	return named([2]string{"job", id.Job}, [2]string{"pipeline", id.Pipeline}, [2]string{"project", id.Project}, [2]string{"ref", id.Ref})
}

// identityDetails says in one line the rest of what is known of the job.
func identityDetails(id event.Identity) string {
	return named([2]string{"pipeline ID", id.PipelineID}, [2]string{"stage", id.Stage}, [2]string{"commit", id.Commit})
}

// named joins pairs of a name and a text, without those that have no text.
func named(pairs ...[2]string) string {
	var parts []string
	for _, pair := range pairs {
		if pair[1] != "" {
			parts = append(parts, pair[0]+" "+oneLine(pair[1]))
		}
	}
	return strings.Join(parts, " · ")
}
