// Package login finds what a job and its host have to log in to the registry of an image.
package login

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/source/credentials"
)

// Login is how to log in to a registry.
type Login struct {
	Registry           string
	Username, Password string // with credentials.TokenUser as the name, the password is an identity token
	From               string // where it is from, for people
}

// Find finds the login for an image: that of the job's own DOCKER_AUTH_CONFIG, of the job's registries, of the host's user, whose
// environment and home are given, or of those of the job's registries that come last. It is nil where there is none; err then says which place could not be asked.
func Find(ctx context.Context, job *executor.Job, env []string, home, image string) (found *Login, err error) {
	name := containers.ParseName(image)
	registry, repository := name.Registry, name.Repository
	if config := job.Variables["DOCKER_AUTH_CONFIG"]; config != "" {
		own := &credentials.Finder{Env: []string{"DOCKER_AUTH_CONFIG=" + config}, NoHelpers: true}
		user, password, ok, ownErr := own.Registry(ctx, registry, repository)
		if ok {
			return &Login{registry, user, password, "the job's DOCKER_AUTH_CONFIG"}, nil
		}
		if ownErr != nil {
			err = fmt.Errorf("the job's DOCKER_AUTH_CONFIG: %w", ownErr)
		}
	}
	if r := registryFor(job.Registries, registry, repository, false); r != nil {
		return &Login{registry, r.Username, r.Password, "the job"}, nil
	}
	found, userErr := OfUser(ctx, env, home, image)
	if found != nil {
		return found, nil
	}
	if r := registryFor(job.Registries, registry, repository, true); r != nil {
		return &Login{registry, r.Username, r.Password, "the job"}, nil
	}
	return nil, errors.Join(err, userErr)
}

// OfUser finds the login of the host's user alone, as Find does.
func OfUser(ctx context.Context, env []string, home, image string) (*Login, error) {
	name := containers.ParseName(image)
	user, password, ok, err := (&credentials.Finder{Env: env, Home: home}).Registry(ctx, name.Registry, name.Repository)
	if ok {
		return &Login{name.Registry, user, password, "your Docker configuration"}, nil
	}
	return nil, err
}

// Auth is what an engine is given for the registry.
func (l *Login) Auth() engine.Auth {
	if l.Username == credentials.TokenUser {
		return engine.Auth{Registry: l.Registry, Token: l.Password}
	}
	return engine.Auth{Registry: l.Registry, Username: l.Username, Password: l.Password}
}

// registryFor is the most precise of the credentials that are for a repository of a registry, of those that come last or the others; nil if none is.
func registryFor(all []containers.Registry, registry, repository string, last bool) (best *containers.Registry) {
	longest := -1
	for i := range all {
		path := strings.Trim(all[i].Path, "/")
		within := path == "" || repository == path || strings.HasPrefix(repository, path+"/")
		if all[i].Last == last && strings.EqualFold(trimRegistry(all[i].Host), registry) && within && len(path) > longest {
			best, longest = &all[i], len(path)
		}
	}
	return best
}

func trimRegistry(host string) string {
	_, after, found := strings.Cut(host, "://")
	if !found {
		after = host
	}
	host, _, _ = strings.Cut(after, "/")
	return host
}
