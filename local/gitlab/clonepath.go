package gitlab

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/place"
)

// enter finds the folder of the job's files and the variables, which depend on each other: GIT_CLONE_PATH begins with CI_BUILDS_DIR.
func (a *attempt) enter() (err error) {
	if a.vars, err = a.variables(&a.layout); err != nil {
		return err
	}
	asked, _ := a.vars.Lookup("GIT_CLONE_PATH")
	if asked == "" {
		return nil
	}
	if asked, err = a.vars.ExpandInJob(asked, func(string) string { return "" }); err != nil {
		return a.wrong("", "GIT_CLONE_PATH: "+err.Error())
	}
	switch {
	case a.o.InPlace:
		a.note("GIT_CLONE_PATH is ignored: the job runs in the work tree itself")
		return nil
	case strings.Contains(asked, `\`) && filepath.Separator == '/':
		a.note("GIT_CLONE_PATH is ignored: it is a folder of Windows")
		return nil
	}
	folders := place.Folders{Project: a.project, Builds: a.builds(&a.layout), Temp: a.layout.Temp, Shared: a.layout.Shared}
	folder, reason, hint := folders.Clone(asked)
	if reason != "" {
		return a.wrong(hint, a.Hide(fmt.Sprintf("GIT_CLONE_PATH is %q, %s", folder, reason)))
	}
	if folder == a.project {
		return nil
	}
	a.project = folder
	a.vars, err = a.variables(&a.layout)
	return err
}

// builds is CI_BUILDS_DIR: the folder above that of the project.
func (a *attempt) builds(layout *executor.Layout) string {
	switch {
	case a.o.InPlace:
		return filepath.Dir(a.runner.project.Repository.Root)
	case layout.Shared:
		return filepath.Dir(layout.Project)
	}
	return path.Dir(layout.Project)
}

// wrong is a mistake in the definition of the job.
func (a *attempt) wrong(hint, message string) error {
	return diag.List{a.job.Keywords.Key.Diagnostic(hint, message)}
}

// uncompiled are the mistakes that show when a job becomes steps.
func (a *attempt) uncompiled(err error) error {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	var list diag.List
	for _, one := range all {
		if own := diag.Of(one); own != nil {
			list = append(list, own...)
		} else {
			list = append(list, a.job.Keywords.Key.Diagnostic("", one.Error()))
		}
	}
	return list
}
