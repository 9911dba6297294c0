package gitlab

import (
	"maps"
	"slices"
	"time"

	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/value"
)

// Sending is what is known of a job when a server sends it to a runner.
type Sending struct {
	ID      int64
	Started time.Time
	// Manual says that somebody started it.
	Manual bool
	// Dotenv are the variables in the reports of jobs whose artifacts it gets.
	Dotenv []variable.Variable
	// Secrets are values of `secrets:`, by name. Those in the project's settings need not be given.
	Secrets map[string]string
	// Own are predefined variables that the server has other values for than this package.
	Own []variable.Variable
	// Keys sign the job's identity tokens.
	Keys *Keys
}

// Keys sign identity tokens.
type Keys struct{ issuer }

// NewKeys makes keys. publish is given the public ones, a JSON Web Key Set, when a job first asks for a token.
func NewKeys(publish func(jwks any)) *Keys {
	k := &Keys{}
	k.publish = func(jwks any) (string, error) {
		publish(jwks)
		return "", nil
	}
	return k
}

// Variables returns the job's variables as GitLab sends them to a runner.
func (s *Sending) Variables(p *Project, j *pipeline.Job) (vars *variable.Collection, err error) {
	facts := p.jobFacts(j)
	facts.ID, facts.PipelineName, facts.Started, facts.Timeout, facts.Manual = int(s.ID), p.Pipeline.Name, s.Started, timeoutOf(j), s.Manual
	if pages := j.Keywords.Pages; pages != nil {
		facts.PagesPrefix = pages.PathPrefix
	}
	layers, err := environmentLayers(p, j)
	if err != nil {
		return nil, err
	}
	layers = append(layers,
		variable.Layer{Level: variable.Dotenv, Variables: s.Dotenv},
		variable.Layer{Level: variable.ExecutionPolicy, Variables: s.supplied(p, j)},
		variable.Layer{Level: variable.Predefined, Variables: slices.Concat(p.Facts.RunVariables(facts), byHand(s.Manual), s.Own)})
	if vars, err = j.VariablesWith(layers...); err != nil {
		return nil, err
	}
	if len(j.Keywords.IDTokens) > 0 {
		tokens, err := s.Keys.tokens(j, vars, timeoutOf(j))
		if err != nil {
			return nil, err
		}
		layers = append(layers, variable.Layer{Level: variable.ExecutionPolicy, Variables: tokens})
		if vars, err = j.VariablesWith(layers...); err != nil {
			return nil, err
		}
	}
	return vars, nil
}

// byHand is what is predefined for a job that somebody started. Rules do not see it.
func byHand(manual bool) []variable.Variable {
	if !manual {
		return nil
	}
	return []variable.Variable{{Name: "CI_JOB_MANUAL", Value: "true"}}
}

// supplied are the `secrets:` whose values were given.
func (s *Sending) supplied(p *Project, j *pipeline.Job) []variable.Variable {
	var out []variable.Variable
	for _, secret := range j.Keywords.Secrets {
		text, ok := s.Secrets[secret.Name]
		if v, known := p.Settings.Lookup(secret.Name); !ok && known {
			text, ok = v.Value, true
		}
		if ok {
			out = append(out, variable.Variable{Name: secret.Name, Value: text, Raw: true, Masked: true, File: secret.File})
		}
	}
	return out
}

// JobInputs are the inputs of a job with their values: those that were given, and else the defaults.
func JobInputs(p *Project, j *pipeline.Job) map[string]value.Value {
	out := map[string]value.Value{}
	for _, in := range j.Keywords.Inputs {
		out[in.Name] = in.Default.Value()
	}
	maps.Copy(out, p.inputs[j.Group])
	return out
}

// Timeout is how long a job may take.
func Timeout(j *pipeline.Job) time.Duration { return timeoutOf(j) }
