package gitlab

import (
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
)

// places are the folders of the store as a job's environment sees them: the store's own where paths of this machine are the environment's
// too, and else folders beside the project, between which files travel.
type places struct {
	cache     string
	artifacts string // of this run of the job
	incoming  string // for archives of other jobs
	releases  string
	pages     string
}

// travelling are the places in an environment with files of its own. They stand below one folder, whose parts are named as the fields.
func travelling(layout executor.Layout) places {
	in := func(name string) string { return session.Target(layout, session.Parcel{To: name}) }
	return places{cache: in("cache"), artifacts: in("out/artifacts"), incoming: in("incoming"), releases: in("out/releases"), pages: in("out/pages")}
}
