package payload

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/place"
)

// Place is what the job asks of the place that it runs in. withImages is whether that place knows images: a job that names one and runs
// on a host directly ignores it and its services, as gitlab-runner's shell executor does.
func (j *Job) Place(withImages bool) (*executor.Job, error) {
	out := &executor.Job{ID: j.EnvironmentID(), ProjectName: j.projectName()}
	out.Variables, out.Private, _ = place.Shown(j.vars)
	out.Masked = j.masked
	if !withImages {
		return out, nil
	}
	out.ImageEnv = true
	out.Registries = place.Registries(j.vars)
	for _, c := range j.gitlab.Credentials {
		if c.Type == "registry" {
			out.Registries = append(out.Registries, containers.Registry{Host: c.URL, Username: c.Username, Password: c.Password, Last: true})
		}
	}
	asked := j.gitlab.Image
	if asked == nil || asked.Name == "" {
		asked = &gitlab.Image{Name: j.runner.Image}
	}
	image, err := j.image(asked)
	if err != nil {
		return nil, err
	}
	if image.Name == "" {
		return nil, wrong("name an `image` in the job, or in [runners.docker] of the runner's configuration", "the job has no image")
	}
	out.Image = image
	for _, from := range slices.Concat(j.runner.Services, j.gitlab.Services) {
		s, err := j.service(&from)
		if err != nil {
			return nil, err
		}
		out.Services = append(out.Services, *s)
	}
	return out, nil
}

// KeepsProject reports whether the job goes on with what an earlier one of its project has left in the folder, and leaves it to later ones. One that
// clones begins empty; one that chooses its folder, or wants it cleaned up behind it (FF_ENABLE_JOB_CLEANUP), leaves nothing.
func (j *Job) KeepsProject() bool {
	if j.Variable("GIT_CLONE_PATH") != "" || j.Flag("FF_ENABLE_JOB_CLEANUP", false) {
		return false
	}
	switch strings.TrimSpace(j.Variable("GIT_STRATEGY")) {
	case "":
		return j.gitlab.AllowGitFetch
	case "fetch", "none":
		return true
	}
	return false
}

// DriverPlace is what the job says of the place that a driver makes for it. The driver is told everything, and does with images and services
// what it will.
func (j *Job) DriverPlace() (*executor.Job, error) {
	out := &executor.Job{ID: j.EnvironmentID(), ProjectName: j.projectName(), Masked: j.masked}
	out.Variables, out.Private, _ = place.Shown(j.vars)
	if _, err := driverVariables(j, ""); err != nil {
		return nil, wrong("", "%v", err)
	}
	services, err := driverServices(j.gitlab.Services)
	if err != nil {
		return nil, err
	}
	response, err := json.Marshal(j.gitlab)
	if err != nil {
		return nil, err
	}
	out.Driver = &executor.DriverFacts{Response: response, Variables: func(builds string) map[string]string {
		variables, _ := driverVariables(j, builds) // which does not fail for another folder
		variables["CI_JOB_SERVICES"] = services
		return variables
	}}
	return out, nil
}

// driverVariables are the job's as its scripts have them in a place with this folder for builds; "" is none that is known.
func driverVariables(j *Job, builds string) (map[string]string, error) {
	in := Folders{Builds: path.Join(builds, j.EnvironmentID())}
	in.Project = path.Join(in.Builds, j.projectName())
	in.Temp = in.Project + ".tmp"
	vars := j.vars
	if builds != "" {
		vars = j.variables(&in)
	}
	out := map[string]string{}
	expanded, err := vars.ExpandForJob(func(name string) string { return path.Join(in.Temp, name) })
	if err != nil {
		return out, err
	}
	for _, v := range expanded.Effective() {
		out[v.Name] = v.Value
		if v.File {
			out[v.Name] = path.Join(in.Temp, v.Name)
		}
	}
	return out, nil
}

// Clone is the folder of the job's files in a place: the place's own, or that of GIT_CLONE_PATH within its folder for builds.
func (j *Job) Clone(in Folders) (string, error) {
	vars := j.variables(&in)
	asked, ok := vars.Get("GIT_CLONE_PATH")
	if !ok || asked.Value == "" {
		return in.Project, nil
	}
	folder, err := vars.ExpandInJob(asked.Value, func(string) string { return "" })
	if err != nil {
		return "", wrong("", "GIT_CLONE_PATH: %v", err)
	}
	folder, reason, hint := place.Folders{Project: in.Project, Builds: in.Builds, Temp: in.Temp, Shared: in.Shared}.Clone(folder)
	switch {
	case folder == in.Project:
		return folder, nil
	case !j.runner.ClonePath:
		return "", wrong("delete the variable, or use a runner with enabled = true in [runners.custom_build_dir]", "GIT_CLONE_PATH is %q, and jobs of this runner cannot choose their folder", folder)
	case reason != "":
		return "", wrong(hint, "GIT_CLONE_PATH is %q, %s", folder, reason)
	}
	return folder, nil
}

// driverService is a service as drivers of the custom executor read it (gitlab-runner 19.3, executors/custom/api).
type driverService struct {
	Name       string            `json:"name"`
	Alias      string            `json:"alias"`
	Entrypoint []string          `json:"entrypoint"`
	Command    []string          `json:"command"`
	Variables  []gitlab.Variable `json:"variables,omitempty"`
}

// driverServices are services as a driver is told them: a JSON array, and nothing where there are none, for which drivers test.
func driverServices(from []gitlab.Image) (string, error) {
	if len(from) == 0 {
		return "", nil
	}
	var out []driverService
	for _, s := range from {
		alias, _, _ := strings.Cut(strings.ReplaceAll(s.Alias, ",", " "), " ")
		out = append(out, driverService{Name: s.Name, Alias: alias, Entrypoint: s.Entrypoint, Command: s.Command, Variables: s.Variables})
	}
	text, err := json.Marshal(out)
	return string(text), err
}

// image is an image with its variables expanded.
func (j *Job) image(from *gitlab.Image) (*containers.Image, error) {
	if unknown := from.Options.Unknown; len(unknown) > 0 {
		return nil, wrong("delete the option, or use a runner that knows it", "the image %s has the option %s, which this runner does not know",
			from.Name, strings.Join(unknown, ", "))
	}
	user := from.Options.Docker.User
	if j.runner.Pods {
		user = cmp.Or(from.Options.Kubernetes.User, user)
	}
	out := &containers.Image{
		Name: j.Expand(from.Name), Entrypoint: from.Entrypoint, PullPolicies: from.PullPolicies,
		Platform: j.Expand(from.Options.Docker.Platform), User: j.Expand(string(user)),
	}
	if len(out.PullPolicies) == 0 {
		out.PullPolicies = j.runner.PullPolicies
	}
	for _, p := range out.PullPolicies {
		switch p {
		case "always", "if-not-present", "never":
		default:
			return nil, event.NewError(event.CodeDefinitionInvalid, "the image %s has the pull policy %q; it can be always, if-not-present or never", out.Name, p)
		}
	}
	return out, nil
}

func (j *Job) service(from *gitlab.Image) (*containers.Service, error) {
	image, err := j.image(from)
	if err != nil {
		return nil, err
	}
	out := &containers.Service{
		Image: *image, Command: from.Command, Variables: map[string]string{},
		Aliases: strings.FieldsFunc(j.Expand(from.Alias), func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }),
	}
	for _, v := range from.Variables {
		out.Variables[v.Key] = v.Value
		if !v.Raw {
			out.Variables[v.Key] = j.Expand(v.Value)
		}
	}
	return out, nil
}
