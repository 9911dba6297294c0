package github

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"

	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/value"
)

// call makes the workflow that a leg calls ready to run.
func (p *Project) call(ctx context.Context, n *node, l *leg) (*scope, error) {
	s, err := p.load(ctx, n.scope, n.job.Call)
	if err != nil {
		return nil, err
	}
	c := n.contexts()
	given, err := n.job.CallArguments(l.Leg, c)
	if err != nil {
		return nil, err
	}
	called, err := s.AsCalled(n.job, given, c)
	if err != nil {
		return nil, err
	}
	s.most = n.job.PermissionsIn(n.scope.most)
	s.contexts = maps.Clone(n.scope.contexts)
	s.contexts["inputs"] = called.Inputs
	s.contexts["secrets"] = value.OfStruct(called.Secrets)
	return s, nil
}

// load reads a workflow that another one calls.
func (p *Project) load(ctx context.Context, from *scope, c *definition.Call) (*scope, error) {
	s := &scope{source: from.source, depth: from.depth + 1}
	if s.depth > definition.MaxCallDepth {
		return nil, wrongCall(c, "", "workflows call each other more than %d levels deep", definition.MaxCallDepth)
	}
	if !filepath.IsLocal(filepath.FromSlash(c.Path)) {
		return nil, wrongCall(c, "", "%s is outside of its repository", c.Path)
	}
	if !c.Local {
		s.source = &definition.Source{Repository: c.Repository, Ref: c.Ref}
		if commit, err := pinned(from.lock, c.Repository, c.Ref); err != nil {
			return nil, wrongCall(c, "", "%v", err)
		} else if commit != "" {
			s.source.Ref = commit
		}
	}
	name, text, err := p.text(ctx, s.source, c)
	if err != nil {
		return nil, err
	}
	if s.lock, err = p.lockOf(ctx, s.source, c.Path); err != nil {
		return nil, err
	}
	if s.Workflow, err = definition.Parse(name, text); err != nil {
		return nil, err
	}
	for _, j := range s.Jobs {
		s.nodes = append(s.nodes, &node{job: j, scope: s})
	}
	return s, nil
}

// text reads the file of a workflow that is called: of the work tree, where it is of no other repository.
func (p *Project) text(ctx context.Context, from *definition.Source, c *definition.Call) (name string, text []byte, err error) {
	if from == nil {
		text, err = readDefinition(p.Repository.Root, filepath.Join(p.Repository.Root, filepath.FromSlash(c.Path)), c.Path)
		if errors.Is(err, fs.ErrNotExist) {
			err = wrongCall(c, "a local workflow is in the work tree, in "+Folder, "there is no workflow %s", c.Uses)
		}
		return c.Path, text, err
	}
	name = from.Repository + "/" + c.Path + "@" + from.Ref
	if p.options.Load == nil {
		return name, nil, wrongCall(c, "", "workflows in other repositories cannot be fetched here")
	}
	if text, err = p.options.Load(ctx, p.Repository, from.Repository, from.Ref, c.Path); err != nil {
		err = wrongCall(c, "--project "+from.Repository+"=DIR takes it from a folder", "cannot fetch the workflow %s: %v", name, err)
	}
	return name, text, err
}
