package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/value"
)

type loginInputs struct {
	Registry   string `json:"registry"`
	Username   string `json:"username"`
	Password   string `json:"password"`
	AuthConfig string `json:"auth_config"`
	Check      bool   `json:"check"`
}

// Login is builtin://docker/login. The configuration is written to a folder of the run's temporary ones, over what an earlier login of
// the run has left.
func Login(ctx context.Context, call *program.Call) error {
	var in loginInputs
	if err := call.Decode(&in); err != nil {
		return err
	}
	config, err := readConfiguration(call.Getenv("DOCKER_CONFIG"))
	if err != nil {
		return fmt.Errorf("reading Docker's configuration: %w", err)
	}
	switch {
	case in.AuthConfig != "" && in.Username+in.Password != "":
		return errors.New("auth_config and username both say who to log in as: keep one of them")
	case in.AuthConfig != "":
		err = addConfiguration(config, in.AuthConfig)
	case in.Username == "" || in.Password == "":
		return errors.New("the username and the password are needed, or an auth_config")
	default:
		err = addLogin(ctx, config, &in)
	}
	if err != nil {
		return err
	}
	folder, err := config.write(call.Getenv("TMPDIR"))
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"DOCKER_CONFIG": folder, "REGISTRY_AUTH_FILE": folder + string(os.PathSeparator) + "config.json"} {
		if err := call.Export(name, text); err != nil {
			return err
		}
	}
	fmt.Fprintln(call.Stdout, loggedIn(&in))
	return call.Output("config", value.OfString(folder))
}

func loggedIn(in *loginInputs) string {
	if in.AuthConfig != "" {
		return "later steps use the registries of the given configuration"
	}
	return fmt.Sprintf("later steps use %s as %s", in.Registry, in.Username)
}

// addConfiguration adds the entries of a whole configuration, and the helpers that it names.
func addConfiguration(config configuration, text string) error {
	given, err := parseConfiguration([]byte(text))
	if err != nil {
		return fmt.Errorf("the auth_config: %w", err)
	}
	entries, err := given.auths()
	if err != nil {
		return fmt.Errorf("the auth_config: %w", err)
	}
	for key, raw := range given {
		if key != "auths" {
			config[key] = raw
		}
	}
	return config.add(entries)
}

// addLogin adds the entry of one registry, once the registry has accepted it.
func addLogin(ctx context.Context, config configuration, in *loginInputs) error {
	host := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(in.Registry, "https://"), "http://"), "/")
	if host == "" || strings.ContainsAny(host, "@ \t\n") {
		return errors.New("the registry must be the name of a host, with a port if need be")
	}
	key := host
	if host == "docker.io" || host == "index.docker.io" || strings.HasPrefix(host, "index.docker.io/") {
		host, key = "registry-1.docker.io", dockerHub
	}
	host, _, _ = strings.Cut(host, "/")
	if in.Check {
		if err := checkLogin(ctx, host, in.Username, in.Password); err != nil {
			return err
		}
	}
	raw, err := entry(in.Username, in.Password)
	if err != nil {
		return err
	}
	return config.add(map[string]json.RawMessage{key: raw})
}
