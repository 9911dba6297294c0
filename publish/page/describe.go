// Package page renders a component's page: its purpose, its inputs and outputs, what it requests, and its exact version and digest. A
// catalog is a folder of such pages.
package page

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/value"
)

// Page is what there is to say about a component.
type Page struct {
	Name        string `json:"name"`
	Reference   string `json:"reference"` // how a job would call it
	Description string `json:"description,omitempty"`
	// Does says how it works: "one script", "one command", "3 steps".
	Does    string       `json:"does"`
	Inputs  []Input      `json:"inputs,omitempty"`
	Outputs []Output     `json:"outputs,omitempty"`
	Env     []EnvRequest `json:"env,omitempty"`
	Secrets []Secret     `json:"secrets,omitempty"`
	// Uses are the references of its own steps, sorted.
	Uses   []string     `json:"uses,omitempty"`
	File   string       `json:"file"`
	Digest string       `json:"digest"`
	Origin *plan.Origin `json:"origin,omitempty"`
	Signed []Signer     `json:"signatures,omitempty"`
	// Delegates says that its outputs are whatever another step or its command gives.
	Delegates bool `json:"delegate_outputs,omitempty"`
}

// Input is a value that the component takes.
type Input struct {
	Name        string        `json:"name"`
	Type        value.Kind    `json:"type"`
	Required    bool          `json:"required,omitempty"`
	Default     *value.Value  `json:"default,omitempty"` // never that of a sensitive input
	Sensitive   bool          `json:"sensitive,omitempty"`
	Options     []value.Value `json:"options,omitempty"`
	Match       string        `json:"match,omitempty"`
	Description string        `json:"description,omitempty"`
}

// Output is a value that the component gives.
type Output struct {
	Name        string       `json:"name"`
	Type        value.Kind   `json:"type"`
	Default     *value.Value `json:"default,omitempty"`
	Sensitive   bool         `json:"sensitive,omitempty"`
	Description string       `json:"description,omitempty"`
}

// EnvRequest is an environment variable that the component asks for.
type EnvRequest struct {
	Name        string  `json:"name"`
	Required    bool    `json:"required,omitempty"`
	Default     *string `json:"default,omitempty"`
	Description string  `json:"description,omitempty"`
}

// Secret is a secret that the component asks for.
type Secret struct {
	Name        string `json:"name"`
	Optional    bool   `json:"optional,omitempty"`
	Description string `json:"description,omitempty"`
}

// Signer is somebody who signed the component, or says so.
type Signer struct {
	Key string `json:"key"`
	// Status is that of signature.Check: valid, invalid, or unknown where the key was not given.
	Status string `json:"status"`
}

// Of makes the page of a component that was loaded.
func Of(name string, c *source.Component) *Page {
	spec := &c.Plan.Spec
	p := &Page{
		Name: name, Reference: c.Ref, Description: strings.TrimSpace(spec.Description), Does: does(&c.Plan.Definition),
		File: c.File, Digest: c.Digest, Origin: c.Origin, Delegates: spec.DelegateOutputs,
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Inputs)) {
		in := spec.Inputs[name]
		p.Inputs = append(p.Inputs, Input{
			Name: name, Type: in.Type, Required: in.Default == nil, Default: open(in.Default, in.Sensitive), Sensitive: in.Sensitive,
			Options: in.Options, Match: in.Match, Description: in.Description,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Outputs)) {
		out := spec.Outputs[name]
		p.Outputs = append(p.Outputs, Output{name, out.Type, open(out.Default, out.Sensitive), out.Sensitive, out.Description})
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Env)) {
		e := spec.Env[name]
		p.Env = append(p.Env, EnvRequest{name, e.Default == nil, e.Default, e.Description})
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Secrets)) {
		s := spec.Secrets[name]
		p.Secrets = append(p.Secrets, Secret{name, s.Optional, s.Description})
	}
	p.Uses = slices.Compact(slices.Sorted(slices.Values(uses(c.Plan.Definition.Steps))))
	return p
}

// open returns a default that may be shown.
func open(v *value.Value, sensitive bool) *value.Value {
	if v == nil || sensitive || v.Sensitive() {
		return nil
	}
	return v
}

func does(d *plan.Definition) string {
	switch {
	case d.Exec != nil && d.Exec.Script != nil:
		return "one script"
	case d.Exec != nil:
		return "one command"
	case len(d.Steps) == 1:
		return "1 step"
	default:
		return fmt.Sprintf("%d steps", len(d.Steps))
	}
}

func uses(steps []plan.Step) (refs []string) {
	for i := range steps {
		st := &steps[i]
		switch {
		case st.Ref != nil:
			refs = append(refs, source.WithoutUserinfo(st.Ref.Text))
		case st.Inline != nil:
			refs = append(refs, uses(st.Inline.Definition.Steps)...)
		}
		refs = append(refs, uses(st.Parallel)...)
	}
	return refs
}
