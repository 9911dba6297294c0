package github

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/diag"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
)

// MaxCalled is how many different workflows may be called from one file, at any depth. Source: GitHub's limits of reusable workflows.
const MaxCalled = 50

// checkCalls holds the chains of calls against GitHub's rules before anything starts: no workflow calls itself, at any depth; there are not
// too many; and none asks for permissions that its caller does not have. What is fetched is checked when it is called.
func (p *Project) checkCalls(ctx context.Context) error {
	c := &callChain{project: p, ctx: ctx, seen: map[string]bool{}, walked: map[string]bool{}}
	c.walk(&scope{Workflow: p.Workflow, lock: p.lock, depth: 1}, []string{p.File})
	return c.wrong.Err()
}

type callChain struct {
	project *Project
	ctx     context.Context
	seen    map[string]bool // files that are called
	walked  map[string]bool // the same, with the permissions that they were walked with
	wrong   diag.List
}

// walk checks the calls of a workflow. path are the files that lead to it, itself included.
func (c *callChain) walk(s *scope, path []string) {
	for _, j := range s.Jobs {
		if j.Call == nil || !j.Call.Local {
			continue
		}
		if at := slices.Index(path, j.Call.Path); at >= 0 {
			c.refuse(wrongCall(j.Call, "", "the workflow calls itself: %s", strings.Join(append(slices.Clone(path[at:]), j.Call.Path), " calls ")))
			continue
		}
		known := c.seen[j.Call.Path]
		c.seen[j.Call.Path] = true
		if len(c.seen) > MaxCalled {
			if !known {
				c.refuse(wrongCall(j.Call, "", "%s calls more than %d workflows", path[0], MaxCalled))
			}
			return
		}
		called, err := c.project.load(c.ctx, s, j.Call)
		if err != nil {
			if s.depth >= definition.MaxCallDepth {
				c.refuse(err)
			}
			continue // the job that calls it says so
		}
		if called.most = j.Declared(s.most); s.most != nil {
			called.most = called.most.Within(s.most)
		}
		c.permissions(j, called)
		key := j.Call.Path
		if called.most != nil {
			key += "\x00" + called.most.String()
		}
		if !c.walked[key] {
			c.walked[key] = true
			c.walk(called, append(slices.Clone(path), j.Call.Path))
		}
	}
}

// permissions refuses what jobs of a called workflow ask for beyond what their caller has. Of a caller that says nothing the repository's
// settings decide, which are not known here.
func (c *callChain) permissions(caller *definition.Job, called *scope) {
	if called.most == nil {
		return
	}
	told := map[string]bool{} // mostly all jobs ask for the same: that of their workflow
	for _, j := range called.Jobs {
		asked := j.Declared(nil)
		if asked == nil {
			continue
		}
		if beyond := asked.Beyond(called.most); beyond != "" && !told[beyond] {
			told[beyond] = true
			c.refuse(wrongCall(caller.Call, "give the calling job these `permissions`, or take them from the called one",
				"the job %q of %s asks for %s, and %q allows %s", j.ID, caller.Call.Path, beyond, caller.ID, cmp.Or(called.most.String(), "none")))
		}
	}
}

func (c *callChain) refuse(err error) {
	var list diag.List
	if errors.As(err, &list) {
		c.wrong = append(c.wrong, list...)
	}
}
