package gitlab

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/catalog/dotenv"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// maxDotenv bounds a dotenv report, in bytes.
const maxDotenv = 16 << 20

// variables are a job's variables, as far as they do not depend on where it runs.
func (r *runner) variables(j *pipeline.Job) (*variable.Collection, error) {
	layers, err := r.layers(j)
	if err != nil {
		return nil, err
	}
	return j.VariablesWith(layers...)
}

// layers are the levels of a job's variables that the file does not hold and that rules did not see.
func (r *runner) layers(j *pipeline.Job) ([]variable.Layer, error) {
	layers, err := environmentLayers(r.project, j)
	if err != nil {
		return nil, err
	}
	reports, err := r.dotenv(j)
	if err != nil {
		return nil, err
	}
	if reports != nil {
		layers = append(layers, variable.Layer{Level: variable.Dotenv, Variables: reports})
	}
	secrets, err := r.secrets(j)
	if err != nil {
		return nil, err
	}
	if secrets != nil {
		layers = append(layers, variable.Layer{Level: variable.ExecutionPolicy, Variables: secrets})
	}
	return layers, nil
}

// environmentLayers are the levels that a job's environment has.
func environmentLayers(p *Project, j *pipeline.Job) ([]variable.Layer, error) {
	e := j.Keywords.Environment
	if e == nil {
		return nil, nil
	}
	vars, err := j.Variables()
	if err != nil {
		return nil, err
	}
	name, err := variable.ExpandText(e.Name, vars.Lookup)
	if err != nil {
		return nil, err
	}
	known := repository.Environment{Name: name, URL: e.URL, Action: e.Action, Tier: e.DeploymentTier}
	return []variable.Layer{
		{Level: variable.Predefined, Variables: known.Variables()}, // the slug and the tier are those of the name that it comes to
		{Level: variable.Project, Variables: p.Settings.For(name, p.Protected())},
	}, nil
}

// tokens are a job's identity tokens.
func (r *runner) tokens(j *pipeline.Job, vars *variable.Collection, timeout time.Duration) ([]variable.Variable, error) {
	out, err := r.issuer.tokens(j, vars, timeout)
	if len(out) > 0 {
		r.SayOnce("", "id_tokens: signed by a key of this run; the public key is in "+store.Folder+"/jwks.json")
	}
	return out, err
}

// tokens are a job's identity tokens.
func (i *issuer) tokens(j *pipeline.Job, vars *variable.Collection, timeout time.Duration) ([]variable.Variable, error) {
	var out []variable.Variable
	for _, t := range j.Keywords.IDTokens {
		t.Audience = slices.Clone(t.Audience)
		for n, text := range t.Audience {
			expanded, err := variable.ExpandText(text, vars.Lookup)
			if err != nil {
				return nil, err
			}
			t.Audience[n] = expanded
		}
		token, err := i.token(t, vars, timeout)
		if err != nil {
			return nil, err
		}
		out = append(out, variable.Variable{Name: t.Name, Value: token, Raw: true, Masked: true})
	}
	return out, nil
}

// vaultAddress is the variable that names the server of vault secrets, as GitLab has it.
const vaultAddress = "VAULT_SERVER_URL"

// secrets are the values that were supplied for a job's `secrets:`. One that is not supplied is read from its vault when the job runs,
// where the job says which one that is; all others are an error.
func (r *runner) secrets(j *pipeline.Job) ([]variable.Variable, error) {
	var out []variable.Variable
	var missing []string
	for _, s := range j.Keywords.Secrets {
		text, ok := r.supplied(s.Name)
		switch {
		case ok:
			out = append(out, variable.Variable{Name: s.Name, Value: text, Raw: true, Masked: true, File: s.File})
		case s.Provider == "vault" && r.hasVault(j):
		default:
			missing = append(missing, fmt.Sprintf("%s (%s)", s.Name, s.Provider))
		}
	}
	if missing != nil {
		first, _, _ := strings.Cut(missing[0], " ")
		return nil, session.Problem(event.ErrorDenied, fmt.Sprintf("use --secret %s=env:VARIABLE or %s=@FILE, or put %s into %s/%s",
			first, first, first, store.Folder, store.VariablesFile),
			"local runs cannot reach the vaults of the secrets %s", strings.Join(missing, ", "))
	}
	return out, nil
}

// supplied is the value that somebody gave for a secret.
func (r *runner) supplied(name string) (string, bool) {
	if text, ok := r.o.Secrets[name]; ok {
		return text, true
	}
	if v, ok := r.project.Settings.Lookup(name); ok {
		return v.Value, true
	}
	return "", false
}

// hasVault reports whether a job says where its vault is.
func (r *runner) hasVault(j *pipeline.Job) bool {
	vars, err := j.Variables()
	if err != nil {
		return false
	}
	address, _ := vars.Lookup(vaultAddress)
	return address != ""
}

// dotenv are the variables in the dotenv reports of jobs whose artifacts a job gets, those of other pipelines among them.
func (r *runner) dotenv(j *pipeline.Job) ([]variable.Variable, error) {
	var out []variable.Variable
	for _, from := range j.Artifacts {
		m := r.consumer(j).leftBy(from)
		if m == nil {
			continue
		}
		read, err := r.dotenvOf(j, from.Name, m)
		if err != nil {
			return nil, err
		}
		out = append(out, read...)
	}
	upstream, err := r.consumer(j).foreignLeft()
	if err != nil {
		return nil, err
	}
	for _, f := range upstream {
		read, err := r.dotenvOf(j, f.name, f.Manifest)
		if err != nil {
			return nil, err
		}
		out = append(out, read...)
	}
	return out, nil
}

// dotenvOf are the variables for j in the reports of another job. One that GitLab would have refused is ignored: its own job has failed
// for it, and those that run nevertheless, such as with `when: always`, are there to clean up.
func (r *runner) dotenvOf(j *pipeline.Job, job string, m *store.Manifest) ([]variable.Variable, error) {
	var out []variable.Variable
	for _, path := range m.ReportPaths("dotenv") {
		variables, err := readDotenv(path)
		if refused, ok := errors.AsType[*refusedReport](err); ok {
			r.consumer(j).warnOnce(path, fmt.Sprintf("the dotenv report of the job %s is ignored: %v", job, refused.err), "")
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("the dotenv report of the job %s: %w", job, err)
		}
		out = append(out, variables...)
	}
	return out, nil
}

// refusedReport is what is wrong in a report.
type refusedReport struct{ err error }

func (e *refusedReport) Error() string { return e.err.Error() }

// readDotenv reads a report, which is compressed with gzip.
func readDotenv(path string) ([]variable.Variable, error) {
	info, err := os.Lstat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxDotenv) {
		err = fmt.Errorf("%s is not a regular file of at most %d KiB", path, maxDotenv>>10)
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	parsed, err := dotenv.ParseReport(data, dotenv.Limits{Bytes: maxDotenv})
	if err != nil {
		return nil, &refusedReport{err}
	}
	out := make([]variable.Variable, len(parsed))
	for i, v := range parsed {
		out[i] = variable.Variable{Name: v.Name, Value: v.Value}
	}
	return out, nil
}
