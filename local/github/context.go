package github

import (
	"fmt"
	"maps"
	"strings"
	"time"

	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/value"
)

// github is the context of that name, but for what belongs to one job or step.
func (f *facts) github(file, name string) map[string]value.Value {
	refType, refName := "branch", strings.TrimPrefix(f.ref, "refs/heads/")
	if tag, ok := strings.CutPrefix(f.ref, "refs/tags/"); ok {
		refType, refName = "tag", tag
	} else if pull, ok := strings.CutPrefix(f.ref, "refs/pull/"); ok {
		refName = pull
	}
	out := map[string]value.Value{
		"event":            f.payload,
		"ref_protected":    value.OfBool(refType == "branch" && f.repository.Protected(refName)),
		"run_attempt":      value.OfString("1"),
		"run_number":       value.OfString("1"),
		"run_id":           value.OfString(fmt.Sprint(time.Now().UnixMilli())),
		"retention_days":   value.OfString("90"),
		"secret_source":    value.OfString("Actions"),
		"triggering_actor": value.OfString(f.repository.User.Login),
	}
	for field, text := range map[string]string{
		"event_name": f.name, "sha": f.sha, "ref": f.ref, "ref_name": refName, "ref_type": refType, "head_ref": f.headRef, "base_ref": f.baseRef,
		"repository": f.fullName(), "repository_owner": f.owner(), "repository_id": fmt.Sprint(idOf(f.fullName())),
		"repository_owner_id": fmt.Sprint(idOf(f.owner())), "repositoryUrl": "git:" + strings.TrimPrefix(f.url(), "https:") + ".git",
		"repository_visibility": "public", "actor": f.repository.User.Login, "actor_id": fmt.Sprint(idOf(f.repository.User.Login)),
		"workflow": name, "workflow_ref": f.fullName() + "/" + file + "@" + f.ref, "workflow_sha": f.repository.SHA(),
		"server_url": f.server(), "api_url": f.api(), "graphql_url": f.graphQL(),
	} {
		out[field] = value.OfString(text)
	}
	return out
}

// contexts are those that exist before there are jobs.
func (p *Project) contexts() definition.Contexts {
	return definition.Contexts{"github": value.OfStruct(p.github), "inputs": p.inputs, "vars": p.vars(""), "secrets": p.secrets("")}
}

// vars are the configuration variables of jobs for an environment: those of the settings that are not masked, and those given by hand.
func (p *Project) vars(environment string) value.Value {
	fields := map[string]value.Value{}
	for _, v := range p.Settings.For(environment, p.protected) {
		if !v.Masked {
			fields[v.Name] = value.OfString(v.Value)
		}
	}
	for name, text := range p.options.Variables {
		fields[name] = value.OfString(text)
	}
	return value.OfStruct(fields)
}

// secrets are those of jobs for an environment: the masked variables of the settings, and those given by hand.
func (p *Project) secrets(environment string) value.Value {
	fields := map[string]value.Value{}
	for _, v := range p.Settings.For(environment, p.protected) {
		if v.Masked {
			fields[v.Name] = value.OfString(v.Value).Mark(true)
		}
	}
	for name, text := range p.options.Secrets {
		fields[name] = value.OfString(text).Mark(true)
	}
	return value.OfStruct(fields)
}

// contexts are those of a job of a workflow: needs are of the jobs that it needs itself.
func (n *node) contexts() definition.Contexts {
	c := maps.Clone(n.scope.contexts)
	needs := map[string]value.Value{}
	for _, id := range n.job.Needs {
		needs[id] = n.scope.outcome(id)
	}
	c["needs"] = value.OfStruct(needs)
	github := maps.Clone(c["github"].Fields())
	github["job"] = value.OfString(n.job.ID)
	c["github"] = value.OfStruct(github)
	return c
}

// outcome is what `needs` and `jobs` say of a job. One that was not chosen is taken as if it had succeeded, and given nothing.
func (s *scope) outcome(id string) value.Value {
	result, outputs := definition.Success, value.OfStruct(nil)
	if n := s.node(id); n != nil && n.unknown {
		return definition.Unknown
	} else if n != nil {
		result, outputs = n.conclusion, value.OfStruct(maps.Clone(n.outputs))
	}
	return value.OfStruct(map[string]value.Value{"result": value.OfString(string(result)), "outputs": outputs})
}
