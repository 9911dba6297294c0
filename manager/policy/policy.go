// Package policy says what the operator of a runner lets jobs ask for. It refuses before anything of a job is made, and its errors name the
// rule: runners.docker.allowed_images.
//
//	config.Runner ─┐
//	               ├─> Enforce ──> nil: the job runs, with what is left of its wishes
//	Request ───────┘           └─> an *event.Error
//
// A list that is empty allows everything. What the configuration itself gives jobs, such as its image, is always allowed, with the job's
// variables in it. Patterns are those of
// glob.MatchName, and are compared with a name as the job writes it, with its variables expanded: other spellings of the same image match
// no pattern.
//
// Source: executors/docker and common/allowed_images.go in gitlab-runner 19.4. Beyond it are the table [runners.policy], and allowed_users for
// services.
package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/egress"
	"github.com/rungci/rung/internal/glob"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
)

// NetworkVariable is the variable by which a job asks for a network policy, as egress.Parse reads it.
const NetworkVariable = "RUNG_NETWORK"

// Request is what a job asks for.
type Request struct {
	// Job has the image and the services of the job, or else of the configuration. Enforce takes out of it what is not allowed where something
	// else is left, and sets its network.
	Job *executor.Job
	// Network is the value of NetworkVariable; "" is none.
	Network string
	// Names are those of the configuration's image and services that have variables, with the job's in them.
	Names map[string]string
	// Protected is whether the job's ref is; nil where GitLab does not say.
	Protected *bool
}

// Enforce holds a job against an entry of the configuration. The error is an *event.Error of code event.CodeDenied or
// event.CodeEnvironmentInvalid.
func Enforce(r *config.Runner, q Request) error {
	if r.Policy.ProtectedRefsOnly && (q.Protected == nil || !*q.Protected) {
		return denied("run the pipeline on a protected branch or tag, or on another runner", "runners.policy.protected_refs_only", "this runner takes jobs of protected branches and tags alone")
	}
	if err := network(&r.Policy, q); err != nil {
		return err
	}
	if of := r.Images(); of != nil {
		return images(of, q)
	}
	return nil
}

func denied(hint, rule, format string, args ...any) error {
	err := event.NewError(event.CodeDenied, "%s (%s)", fmt.Sprintf(format, args...), rule)
	err.Hint = hint
	return err
}

// network sets what the job may reach: what it asks for, or the entry's.
func network(p *config.Policy, q Request) error {
	most, err := egress.Parse(cmp.Or(p.Network, "all"))
	if err != nil {
		return event.NewError(event.CodeDenied, "the runner's network policy cannot be read: %v (runners.policy.network)", err)
	}
	asked := most
	if q.Network != "" {
		if asked, err = egress.Parse(q.Network); err != nil {
			return event.NewError(event.CodeEnvironmentInvalid, "the job asks for the network %q (%s): %v", q.Network, NetworkVariable, err)
		}
		if !asked.Within(most) && !slices.ContainsFunc(p.AllowedNetworks, func(text string) bool {
			also, err := egress.Parse(text)
			return err == nil && asked.Within(also)
		}) {
			return denied("ask for less, or use another runner", "runners.policy.allowed_networks", "the network %q is more than jobs of this runner may have", q.Network)
		}
	}
	switch {
	case !asked.All():
		q.Job.Network = executor.NetworkPolicy(asked.String())
	case q.Network != "":
		q.Job.Network = executor.NetworkDefault
	}
	return nil
}

// images enforces the rules about images, services, and what is asked of them.
func images(d *config.Images, q Request) error {
	job, named := q.Job, func(name string) string { return cmp.Or(q.Names[name], name) }
	if job.Image != nil {
		if job.Image.Name != named(d.Image) && !allowed(d.AllowedImages, job.Image.Name) {
			return notListed("image", job.Image.Name, d.Table+".allowed_images", d.AllowedImages)
		}
		image := *job.Image
		if err := narrow(d, &image); err != nil {
			return err
		}
		if d.User == "" { // else it is not the job that says
			if err := user(d, &image); err != nil {
				return err
			}
		}
		job.Image = &image
	}
	own := map[string]bool{}
	for _, s := range d.Services {
		own[named(s.Name)] = true
	}
	job.Services = slices.Clone(job.Services)
	for i := range job.Services {
		s := &job.Services[i]
		if !own[s.Name] && !allowed(d.AllowedServices, s.Name) {
			return notListed("service", s.Name, d.Table+".allowed_services", d.AllowedServices)
		}
		if err := narrow(d, &s.Image); err != nil {
			return err
		}
		if err := user(d, &s.Image); err != nil {
			return err
		}
	}
	if most := d.ServicesLimit; most != nil && *most >= 0 && len(job.Services) > *most {
		return denied("take services out of the job", "runners.docker.services_limit", "the job has %d services with those of the runner, and may have %d", len(job.Services), *most)
	}
	return nil
}

func allowed(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return glob.MatchName(p, name) })
}

func notListed(what, name, rule string, list []string) error {
	return denied("use one of "+strings.Join(list, ", ")+", or another runner", rule, "the %s %q is not one of those that this runner allows", what, name)
}

// narrow leaves an image those of its pull policies that are allowed.
func narrow(d *config.Images, image *containers.Image) error {
	list, rule := d.AllowedPullPolicies, d.Table+".allowed_pull_policies"
	if len(list) == 0 {
		list, rule = d.PullPolicy, d.Table+".pull_policy"
	}
	asked := image.PullPolicies
	if len(asked) == 0 {
		asked = d.PullPolicy
	}
	if len(list) == 0 || len(asked) == 0 {
		return nil
	}
	image.PullPolicies = slices.DeleteFunc(slices.Clone(asked), func(policy string) bool { return !slices.Contains(list, policy) })
	if len(image.PullPolicies) == 0 {
		return denied("use "+strings.Join(list, " or "), rule, "image %q has the pull policy %s, which this runner does not allow", image.Name, strings.Join(asked, ", "))
	}
	return nil
}

// user refuses one, and its group, that are not allowed.
func user(d *config.Images, image *containers.Image) error {
	name, group, grouped := strings.Cut(image.User, ":")
	refused := func(what, name, rule string, list []string) error {
		return denied("use one of "+strings.Join(list, ", ")+", or the image's own", rule, "image %q is to run as the %s %q, which this runner does not allow", image.Name, what, name)
	}
	if !d.GroupsApart {
		name = image.User
	}
	if name != "" && len(d.AllowedUsers) > 0 && !slices.Contains(d.AllowedUsers, name) {
		return refused("user", name, d.Table+".allowed_users", d.AllowedUsers)
	}
	if grouped && len(d.AllowedGroups) > 0 && !slices.Contains(d.AllowedGroups, group) {
		return refused("group", group, d.Table+".allowed_groups", d.AllowedGroups)
	}
	return nil
}
